#!/bin/sh
# The Makefile itself, on a copy of the sources that cannot be written: nothing is written beside BUILD,
# nothing stale is used after a change of flags, nothing is left by clean, wrong values are refused.
. tests/build/lib.sh
src="$scratch/src" out="$scratch/out"
mkdir "$src"
cp -R gpured.h gpured_omp.c gpured.pc.in Makefile tests examples "$src"
[ ! -f gpured_cuda.cu ] || cp gpured_cuda.cu "$src"
touch "$scratch/marker"
chmod -R a-w "$src"
# The exported variables of the make that runs this script must not reach the makes that it tests.
with_openmp=$HAVE_OPENMP
unset BUILD CFLAGS CXXFLAGS OMPFLAG OPENMP CUDA WERROR HAVE_OPENMP HAVE_CUDA
[ -n "$NVCC" ] || unset NVCC # empty it would be a compiler
mk() { ${MAKE:-make} --no-print-directory -C "$src" BUILD="$out" CC="$CC" CUDA=0 "$@"; }
builds() { mk -n all "$@" | grep -c -e "-c gpured_omp.c"; }

check 'make -j2 with read-only sources' mk -j2 all CFLAGS=-O0
same 'files written into the sources' '' "$(find "$src" -newer "$scratch/marker" ! -type d)"
check 'a second make has nothing to do' mk -q all CFLAGS=-O0
same 'changed CFLAGS compile the library again' 1 "$(builds CFLAGS='-O0 -DEXTRA')"
same "the user's flags come last" 1 \
  "$(mk -n all CFLAGS='-O0 -DEXTRA=1' | grep -c -e '-fPIC .*-O0 -DEXTRA=1 .*-c gpured_omp.c')"
check 'make after the changes' mk all CFLAGS=-O0
check 'and again nothing to do' mk -q all CFLAGS=-O0
same 'another CC compiles the library again' 1 "$(builds CFLAGS=-O0 CC="$CC -pipe")"
check 'make after the changes' mk all CFLAGS=-O0
if [ "$with_openmp" = 1 ]; then
  same 'OPENMP=0 compiles the library again' 1 "$(builds CFLAGS=-O0 OPENMP=0)"
  same 'OPENMP=0 uses no -fopenmp' 0 "$(mk -n all CFLAGS=-O0 OPENMP=0 | grep -c -e -fopenmp)"
  check 'make after the changes' mk all CFLAGS=-O0
fi
chmod u+w "$src" "$src/gpured.h"
touch "$src/gpured.h"
same 'a changed header compiles the library again' 1 "$(builds CFLAGS=-O0)"

refuses 'OPENMP=2' 'OPENMP=2: must be' mk all OPENMP=2
refuses 'CUDA=yes' 'CUDA=yes: must be' mk all CUDA=yes
refuses 'WERROR=x' 'WERROR=x: must be' mk all WERROR=x
refuses 'OPENMP=1 without OpenMP' 'OPENMP=1: ' mk all OPENMP=1 CC=false
[ -f gpured_cuda.cu ] || refuses 'CUDA=1 without its file' 'gpured_cuda.cu is not' mk all CUDA=1
if [ -f gpured_cuda.cu ] && command -v "${NVCC:-nvcc}" >/dev/null; then
  same 'CUDA=1 compiles the backend' 1 "$(mk -n all CUDA=1 | grep -c -e '-c gpured_cuda.cu')"
else
  skip 'CUDA=1: no nvcc'
fi
same 'version of the file name' "$VERSION" \
  "$(cd "$out" && ls libgpured.so.*.*.* | sed 's/libgpured.so.//')"
for target in '\[all\]' test test-slow check-golden test-flags test-sanitizers demo bench plots docs install \
  install-tools uninstall clean; do
  same "help names $target" 1 "$(mk help | grep -c -e "^make $target ")"
done
check 'clean' mk clean
same 'left by clean' '' "$(find "$out" 2>/dev/null)"
mkdir -p "$out/examples" && touch "$out/examples/mine"
check 'clean' mk clean
same "clean keeps what is not the Makefile's" "$out/examples/mine" "$(find "$out" -type f)"
finish
