#!/bin/sh
# gpured-npy when memory runs out: the k-th request fails, for every k until one run asks no more. Each
# run but that one ends with status 1, one line that says so, and no output, neither printed nor in
# a file. The tool is built once more with tests/build/faults.c in the place of malloc.
. tests/build/lib.sh
tool="$scratch/npy" out="$scratch/out.npy" library="$BUILD/libgpured.a"
if [ "$HAVE_CUDA" ]; then # whose runtime asks the same malloc(), and falls over what it does not get
  library="$scratch/library.o" LIBS="-lm $LDLIBS"
  check 'the library without CUDA' \
    $CC -std=c99 $OMPFLAG -O1 -DGPURED_NO_SIMD -c gpured_omp.c -o "$library"
fi
wrap=
for function in malloc calloc realloc; do wrap="$wrap -Wl,--wrap=$function"; done
if ! $CC -std=c11 -I. $OMPFLAG $CPPFLAGS $CFLAGS examples/npy.c tests/build/faults.c "$library" \
    $wrap $LDFLAGS $LIBS -o "$tool" >"$scratch/log" 2>&1; then
  skip "gpured-npy without memory: $(grep -v '^ ' "$scratch/log" | head -n 1)"
  finish
fi

# without_memory NAME ARGUMENT...: every request of this run fails in turn.
without_memory() {
  name=$1 k=0 wrong=; shift
  while k=$((k + 1)) && [ $k -lt 200 ]; do
    rm -f "$out"
    GPURED_FAIL_AT=$k "$tool" "$@" >"$scratch/stdout" 2>"$scratch/stderr" && break
    status=$?
    [ $status -eq 1 ] || wrong="request $k: status $status"
    [ "$(wc -l <"$scratch/stderr")" -eq 1 ] || wrong="request $k: not one line on stderr"
    grep -q '^gpured-npy: .*memory' "$scratch/stderr" || wrong="request $k: $(cat "$scratch/stderr")"
    [ ! -s "$scratch/stdout" ] || wrong="request $k: something on stdout"
    [ -z "$(ls "$scratch" | grep '^out.npy')" ] || wrong="request $k: a file is left"
    [ -z "$wrong" ] || break
  done
  same "$name" '' "$wrong"
  same "$name: requests were made, and met in the end" yes "$([ $k -gt 2 ] && [ $k -lt 200 ] && echo yes)"
}

iris=examples/data/iris.npy
without_memory 'reduce' reduce mean --axis 0 $iris
without_memory 'reduce into a file' reduce logsumexp --axis 1 $iris -o "$out"
without_memory 'scan' scan sum --axis 0 $iris -o "$out"
finish
