#!/bin/sh
# gpured_selftest() notices what it is there for: a sound build passes in every mode that the caller
# can have set, and each way of breaking the arithmetic makes it answer with an error. Where flags are
# refused by an #error, their macros are undefined first: so much for a compiler that says nothing.
. tests/build/lib.sh
# What is inlined makes no difference to it, and a compiler takes half as long.
flags="-std=gnu11 -DGPURED_NO_SIMD -DGPURED__FORCES=0 -I."

# build NAME COMMAND...: the program $scratch/self; a compiler that cannot do it is a skip.
build() {
  what=$1; shift
  rm -f "$scratch/self"
  "$@" tests/build/selftest.c -lm -o "$scratch/self" >"$scratch/log" 2>&1 && return
  skip "$what: $1 cannot build it"
  return 1
}
fails() { # NAME MODE: what has been built, run in MODE
  "$scratch/self" $2 >"$scratch/log" 2>&1; code=$?
  same "$1: status" 3 "$code" # GPURED_ERR_UNSUPPORTED
}
finds() { # NAME COMMAND...: built so, the self-test must fail
  build "$@" || return
  fails "$1" ''
}

if build 'a sound build' gcc $flags -DBREAK_FLAGS -O1; then
  for mode in '' upward downward zero flush; do check "sound, mode '$mode'" "$scratch/self" $mode; done
fi
x86=$(printf '#ifdef __SSE2__\nyes\n#endif\n' | gcc -E -P -)
finds 'products of fma rounded' gcc $flags -DBREAK_FMA -O0
if [ "$x86" = yes ]; then
  if grep -q -w fma /proc/cpuinfo; then
    finds 'fused products' gcc $flags -DBREAK_KEEP -O2 -mfma -ffp-contract=fast
  fi
  if build "caller's mode kept" gcc $flags -DBREAK_MODE -O0; then
    for mode in upward downward zero flush; do fails "caller's mode kept: $mode" $mode; done
  fi
  finds 'x87 registers' gcc $flags -DBREAK_FLAGS -O1 -mfpmath=387 -U__FLT_EVAL_METHOD__ \
    -D__FLT_EVAL_METHOD__=0
fi
finds 'gcc -ffinite-math-only' gcc $flags -DBREAK_FLAGS -O2 -ffinite-math-only \
  -U__FINITE_MATH_ONLY__ -D__FINITE_MATH_ONLY__=0
finds 'gcc -fno-signed-zeros' gcc $flags -DBREAK_FLAGS -O1 -fno-signed-zeros \
  -U__NO_SIGNED_ZEROS__
finds 'clang -fassociative-math' clang $flags -DBREAK_FLAGS -O1 -fassociative-math \
  -fno-signed-zeros
finish
