#!/bin/sh
# The bits under whatever flags a project compiles with: the implementation is built with them, the
# vectors and the self-test must pass, or the compiler must have refused with an #error that says why.
# The checker itself is always built with plain flags, so that only one side can go wrong.
# Each flag runs once with each compiler, OpenMP on and off in turn, over the scalar code, which is where
# compilers are free (.ci/run has steps for -O3 -march=native with all of it); FULL=1 is the whole
# matrix with vector code everywhere and every vector path run.
# JOBS columns run at once (default 1).
. tests/build/lib.sh

# What -m32 means: Debian's gcc-multilib and its cross compilers exclude each other, so the cross
# compiler for i686 does gcc's part, and its libraries serve clang. There is no 32-bit libomp.
gcc32='i686-linux-gnu-gcc -static' clang32='clang --target=i686-linux-gnu -static'

compiler_of() { # COMPILER WIDTH
  case $1$2 in gcc64) echo gcc ;; gcc32) echo "$gcc32" ;; clang64) echo clang ;; *) echo "$clang32" ;; esac
}
compiles() { # COMMAND...: can it build a program?
  printf 'int main(void) { return 0; }\n' >"$scratch/probe.c"
  "$@" "$scratch/probe.c" -o "$scratch/probe" >/dev/null 2>&1
}
run() { # PROGRAM ARGUMENT...: a system without 32-bit programs runs them under QEMU
  if [ "$width" = 32 ] && [ -n "$emulator" ]; then
    $emulator "$@"
  else
    "$@"
  fi
}

# The vectors and the self-test with the implementation in implementation.o.
holds() { # NAME LINK-COMMAND...
  what=$1; shift
  check="$scratch/check"
  check "$what: linked" "$@" "$parts/check$width.o" "$scratch/implementation.o" -lm -o "$check"
  check "$what: self-test linked" "$@" "$parts/self$width.o" "$scratch/implementation.o" -lm \
    -o "$scratch/self"
  [ -x "$check" ] && [ -x "$scratch/self" ] || return
  case ${FULL:-0}$flags in
    1*GPURED_NO_SIMD* | 0*) levels=default ;;
    *) levels='scalar sse2 avx2 avx512' ;;
  esac
  for level in $levels; do
    [ "$level" = default ] || export GPURED_CPU=$level
    check "$what: vectors, $level" run "$check"
    check "$what: self-test, $level" run "$scratch/self"
  done
}

# One column: COMPILER WIDTH OPENMP EXPECTED FLAGS, EXPECTED being "holds", a text of the #error, or
# "link": the implementation is built with -O1 and linked with the flags.
column() {
  cc=$1 width=$2 openmp=$3 expected=$4; shift 4
  flags=$* name="$cc $* ${openmp:+-fopenmp}"
  cc=$(compiler_of "$cc" "$width")
  [ -s "$parts/check$width.o" ] || { skip "$name: no 32-bit x86 compiler"; return; }
  compiles $cc || { skip "$name: $cc builds no program"; return; }
  if [ -n "$openmp" ] && ! compiles $cc -fopenmp; then skip "$name: no OpenMP"; return; fi
  case $expected in
    holds)
      check "$name: compiled" $cc $flags $openmp -c gpured_omp.c -o "$scratch/implementation.o"
      [ -s "$scratch/implementation.o" ] && holds "$name" $cc $flags $openmp ;;
    link)
      check "$name: compiled" $cc -O1 -DGPURED_NO_SIMD $openmp -c gpured_omp.c \
        -o "$scratch/implementation.o"
      holds "linked by $name" $cc $flags $openmp ;;
    *)
      refuses "$name" "$expected" $cc $flags $openmp -c gpured_omp.c -o "$scratch/implementation.o"
      same "$name: by #error" yes "$(grep -q 'error' "$scratch/log" && echo yes)" ;;
  esac
}

fast='gpured: no -ffast-math' wide='gpured: no wider floats'
plain=-DGPURED_NO_SIMD
# The matrix: "WIDTH|EXPECTED|FLAGS" for both compilers, then what one of them has alone. A part of
# -ffast-math has a macro only in gcc; clang switches those off where it can, and gpured_selftest()
# finds the others (tests/build/selftest.sh).
matrix() { # COMPILER
  cat <<END
64|holds|-O0 $plain
64|holds|-O1 $plain
64|holds|-O2 $plain
64|holds|-O3 $plain
64|$fast|-Ofast
64|holds|-O1 -march=native $plain
64|holds|-O1 -mfma -ffp-contract=fast $plain
64|holds|-O1 -flto $plain
64|holds|-O1 -funroll-loops $plain
64|holds|-O2 -fno-strict-aliasing $plain
64|link|-ffast-math
32|holds|-m32 -O1 -msse2 -mfpmath=sse $plain
32|$wide|-m32 -mno-sse
END
  case $1 in
    gcc) cat <<END
64|$wide|-O2 -mfpmath=387
32|$wide|-m32 -mfpmath=387 -msse2
64|$fast|-O2 -ffinite-math-only
64|$fast|-O2 -fassociative-math -fno-signed-zeros -fno-trapping-math
64|$fast|-O2 -fno-signed-zeros
64|$fast|-O2 -freciprocal-math
64|holds|-O1 -frounding-math -fsignaling-nans -fexcess-precision=fast $plain
END
      ;;
    clang) cat <<END
64|unit is not supported|-O2 -mfpmath=387
64|$fast|-O2 -ffinite-math-only
64|holds|-O1 -fno-honor-nans $plain
64|holds|-O1 -freciprocal-math -fno-signed-zeros -fapprox-func $plain
END
      ;;
  esac
}

# A process of its own for each column, of the work that a first process hands out.
if [ -n "${FLAGS_COLUMN:-}" ]; then
  IFS='|' read -r cc openmp width expected flags <<END
$FLAGS_COLUMN
END
  column "$cc" "$width" "$openmp" "$expected" $flags
  finish
fi

parts=$scratch emulator=
for width in 64 32; do
  cc=$(compiler_of gcc $width)
  compiles $cc || cc=$(compiler_of clang $width)
  compiles $cc || continue
  for part in check:tests/golden_check.c self:tests/build/selftest.c; do
    check "${part#*:}, $width bits" $cc -O1 -ffp-contract=off -msse2 -mfpmath=sse -I. \
      -c "${part#*:}" -o "$parts/${part%%:*}$width.o"
  done
done
turn=0
for cc in gcc clang; do
  matrix $cc | while IFS= read -r line; do
    turn=$((turn + 1))
    [ "${FULL:-0}" = 1 ] && line=$(echo "$line" | sed "s/ $plain//")
    on="$cc|-fopenmp|$line" off="$cc||$line"
    if [ "${FULL:-0}" = 1 ]; then printf '%s\n' "$on" "$off"
    elif [ $((turn % 2)) -eq 0 ] && [ "$cc${line%%|*}" != clang32 ]; then echo "$on"
    else echo "$off"; fi
  done
done >"$scratch/columns"
compiles $(compiler_of gcc 32) && ! "$scratch/probe" >/dev/null 2>&1 && emulator=qemu-i386-static
export parts emulator
xargs -P "${JOBS:-1}" -I{} env FLAGS_COLUMN={} sh tests/build/flags.sh <"$scratch/columns" \
  >"$scratch/report" 2>&1
grep -v '^[0-9]* passed, ' "$scratch/report"
for what in passed failed skipped; do
  n=$(sed -n "s/.*\(^\| \)\([0-9][0-9]*\) $what.*/\2/p" "$scratch/report" |
    awk '{ n += $1 } END { print n + 0 }')
  eval "$what=\$(($what + n))"
done
same 'columns that came to an end' "$(grep -c '' "$scratch/columns")" \
  "$(grep -c '^[0-9]* passed, ' "$scratch/report")"
finish
