#!/bin/sh
# The published vectors are what the oracle gives, also as this compiler and these flags build it.
. tests/build/lib.sh
check 'golden_make' "$BUILD/tests/golden_make"
cp "$scratch/log" "$scratch/golden.txt"
check 'tests/golden/golden.txt is what golden_make writes' \
  cmp "$scratch/golden.txt" tests/golden/golden.txt
finish
