#!/bin/sh
# docs/TUTORIAL.md, done: each C program of it is compiled without a warning, run, and must print the
# text that follows it. They are linked with the library that is built; the compile line that the
# tutorial shows is run once, with the plain kernels alone and without optimization, to save time.
. tests/build/lib.sh
page=docs/TUTORIAL.md
# N.c and N.txt: the Nth C block and the text block after it; sh: the shell block.
awk -v to="$scratch/" '
  /^```/ && file { close(file); file = ""; next }
  /^```c$/ { file = to (++n) ".c"; printf "" >file; next }
  /^```text$/ { file = to (n + 0) ".txt"; printf "" >file; next }
  /^```sh$/ { file = to "sh"; printf "" >file; next }
  file { print >file }' "$page"
steps=$(ls "$scratch" | grep -c '^[0-9]*\.c$')
same 'programs in the tutorial' yes "$([ "$steps" -ge 10 ] && echo yes || echo "$steps")"

step=1
while [ "$step" -le "$steps" ]; do
  program="$scratch/$step"
  check "step $step" $CC -std=c99 -Wall -Wextra -Wconversion -pedantic -Werror -I. $CFLAGS \
    "$program.c" -L"$BUILD" -lgpured $LDFLAGS -lm -o "$program"
  LD_LIBRARY_PATH="$BUILD" "$program" >"$program.out" 2>&1
  same "step $step: status" 0 $?
  check "step $step: what it prints" diff "$program.txt" "$program.out"
  same "step $step: at most 60 lines" yes "$([ "$(grep -c '' "$program.c")" -le 60 ] && echo yes)"
  step=$((step + 1))
done

line=$(sed -n 's/^cc -O2 //p' "$scratch/sh")
case $line in
  '') fail 'the tutorial has no compile line' ;;
  *-fopenmp*) [ -n "$OMPFLAG" ] || line= ;;
esac
if [ -z "$line" ]; then
  skip 'the compile line: no OpenMP'
else
  mkdir "$scratch/project"
  cp gpured.h gpured_omp.c "$scratch/project"
  cp "$scratch/1.c" "$scratch/project/main.c"
  cd "$scratch/project" || exit 1
  check "the line cc -O2 $line" sh -c "$CC -O0 -DGPURED_NO_SIMD $line"
  check 'what it makes' sh -c "./main | diff ../1.txt -"
fi
finish
