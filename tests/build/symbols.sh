#!/bin/sh
# What the libraries offer and use: every declared function, nothing without the prefix, and no call
# that changes the state of the process.
. tests/build/lib.sh
nm=${NM:-nm}
if ! command -v $nm >/dev/null; then skip "$nm is not there"; finish; fi

# Functions that gpured.h declares.
sed -n 's/^[A-Za-z_ ]*GPURED_API [^(]*[ *]\(gpured_[a-z0-9_]*\)(.*/\1/p' gpured.h | sort -u >"$scratch/declared"
# The shared library's own; old linkers add a few names of sections.
$nm -D --defined-only "$BUILD/libgpured.so" | awk '{ print $NF }' |
  grep -v -x -E '_init|_fini|_edata|_end|__bss_start' | sort -u >"$scratch/exported"
$nm -g --defined-only "$BUILD/libgpured.a" | awk 'NF == 3 { print $3 }' | sort -u >"$scratch/static"
$nm -u "$BUILD/libgpured.a" | awk '{ print $NF }' | sort -u >"$scratch/used"

same 'more than 30 functions are declared' yes \
  "$([ "$(wc -l <"$scratch/declared")" -gt 30 ] && echo yes || wc -l <"$scratch/declared")"
same 'declared, but not exported by the shared library' '' \
  "$(comm -23 "$scratch/declared" "$scratch/exported" | tr '\n' ' ')"
same 'exported by the shared library, but not declared' '' \
  "$(comm -13 "$scratch/declared" "$scratch/exported" | tr '\n' ' ')"
same 'declared, but not in the static library' '' \
  "$(comm -23 "$scratch/declared" "$scratch/static" | tr '\n' ' ')"
same 'global in the static library without the prefix' '' \
  "$(grep -v '^gpured_' "$scratch/static" | tr '\n' ' ')"
same 'calls that change or end the process' '' \
  "$(grep -x -E 'omp_set_.*|setenv|putenv|setlocale|signal|exit|abort|_exit|printf|puts|fprintf|fesetround' \
    "$scratch/used" | tr '\n' ' ')"
finish
