#!/bin/sh
# The ways into somebody else's build that README.md shows and readme.sh does not try, each done in
# a folder of its own with the README's own lines: an installed library found by make, Meson and
# CMake, the CUDA backend linked by the C compiler and by nvcc, a git subtree. The program is the
# README's first C example; what is compiled of gpured itself is compiled quickly.
. tests/build/lib.sh
readme=$PWD/README.md repository=$PWD stage="$scratch/installed"
object=${CUDA_OBJECT:-$BUILD/obj/gpured_cuda.o} # nvcc takes minutes: the build's own, or one given
case $object in /*) ;; *) object=$PWD/$object ;; esac
expected=$(sed -n 's/^prints `\(.*\)`.*/\1/p' "$readme" | head -n 1)

block() {
  awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```/ { if (on) exit } on' "$readme"
}
line() { grep -e "$1" "$readme" | head -n 1; } # the first of the README that matches
quickly() {
  echo "$1" | sed -e "s|^cc |$CC |" -e "s|^nvcc |$nvcc |" -e "s|-fopenmp|${OMPFLAG:--w}|" \
    -e 's| -O2 | -O0 -DGPURED_NO_SIMD |'
}
have() { command -v "$1" >/dev/null; }
# begin FOLDER: an empty project with main.c in it.
begin() { mkdir "$scratch/$1" && cd "$scratch/$1" && block c >main.c; }
prints() { same "$1: result" "$expected" "$("$2" 2>&1)"; } # NAME PROGRAM

check 'install' $MAKE -s --no-print-directory install DESTDIR= PREFIX="$stage" LIBDIR="$stage/lib" \
  INCLUDEDIR="$stage/include" BINDIR="$stage/bin" PKGCONFDIR="$stage/lib/pkgconfig"
export PKG_CONFIG_PATH="$stage/lib/pkgconfig" LD_LIBRARY_PATH="$stage/lib"
# The projects take this build's compilers, not its flags.
unset CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS

# ---- an installed library, through pkg-config -----------------------------------------------------
in_make() {
  begin make
  block make >Makefile
  check 'make' $MAKE -s CC="$CC" main
  prints 'make' ./main
}
in_meson() {
  begin meson
  block meson >meson.build
  check 'meson setup' meson setup out
  check 'meson compile' meson compile -C out
  prints 'meson' out/main
  # The other dependency that the README's line offers; it must not need the shared library.
  other=$(sed -n 's/^executable.* or //p' meson.build)
  sed "s/dependency('gpured')/$other/" meson.build >"$scratch/other" && cp "$scratch/other" meson.build
  check 'meson setup, static' meson setup static
  check 'meson compile, static' meson compile -C static
  same 'meson, static: result' "$expected" "$(LD_LIBRARY_PATH= static/main 2>&1)"
}
in_cmake() {
  begin cmake
  block cmake >CMakeLists.txt
  check 'cmake' cmake -B out
  check 'cmake --build' cmake --build out
  prints 'cmake' out/main
}

if ! have pkg-config; then
  skip 'make, Meson, CMake: no pkg-config'
else
  in_make
  if have meson && have ninja; then in_meson; else skip 'no Meson or no ninja'; fi
  if have cmake; then in_cmake; else skip 'no CMake'; fi
fi

# ---- the CUDA backend, compiled by nvcc before ----------------------------------------------------
# linked NAME COMMAND: the program's backend looks for the driver, and finds a device or says that
# there is none, as a program without the backend would.
linked() {
  linked=$1
  rm -f main
  check "$linked" sh -c "$(quickly "$2" | sed -e 's|gpured_cuda\.cu|gpured_cuda.o|' \
    -e "s|/usr/local/cuda/lib64|${nvcc%/*}/../lib64|")"
  said=$(./main 2>&1)
  case $said in
    'no device: 8 0.0' | 'a device: 0 15.0') pass ;;
    *) fail "$linked: the program says '$said'" ;;
  esac
  check "$linked: the driver is looked for" sh -c 'LD_DEBUG=files ./main 2>&1 | grep "libcuda\.so"'
}
with_cuda() {
  begin cuda
  cat >main.c <<'END'
#include <stdio.h>

#include "gpured.h"

int main(void) {
  float a[6] = {0, 1, 2, 3, 4, 5}, sum[1] = {0};
  gpured_tensor in = gpured_matrix(a, GPURED_F32, 1, 6), out = gpured_vector(sum, GPURED_F32, 1);
  gpured_options options = gpured_default_options();
  options.backend = GPURED_BACKEND_CUDA;
  int status = (int)gpured_reduce(GPURED_SUM, &in, 1u << 1, &out, &options);
  printf("%s: %d %.1f\n", gpured_cuda_available() ? "a device" : "no device", status, sum[0]);
  return 0;
}
END
  if [ -f "$object" ]; then
    cp "$repository/gpured.h" "$repository/gpured_omp.c" .
    cp "$object" gpured_cuda.o
    same 'CUDA: one global name' gpured__cuda_backend \
      "$(nm -g --defined-only gpured_cuda.o | awk 'NF == 3 { print $3 }')"
    linked 'CUDA: cc links an object of nvcc' "$(line '^cc .*gpured_cuda\.o')"
    linked 'CUDA: nvcc compiles and links' "$(line '^nvcc .*gpured_cuda\.cu -o')"
  else
    skip 'CUDA linked by cc and by nvcc: this build has no object of gpured_cuda.cu'
  fi
  if ! have pkg-config; then skip 'CUDA: no pkg-config'
  elif [ "$(pkg-config --variable=backends gpured)" = 'cpu cuda' ]; then
    rm -f gpured*
    linked 'CUDA: nvcc links the installed library' "$(line '^nvcc .*pkg-config')"
  else
    skip 'CUDA: the installed library has no such backend'
  fi
}

nvcc=$(command -v "${NVCC:-nvcc}")
if [ -n "$nvcc" ]; then with_cuda; else skip 'CUDA: no nvcc'; fi

# ---- a git subtree of what is committed here ------------------------------------------------------
# Without the settings of whoever runs this.
in_subtree() {
  begin subtree
  unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
  export HOME="$scratch/home" GIT_CONFIG_NOSYSTEM=1
  mkdir "$HOME"
  printf '[user]\nname = A\nemail = a@example.org\n[safe]\ndirectory = *\n' >"$HOME/.gitconfig"
  check 'a project in git' sh -c 'git init -q . && git add main.c && git commit -q -m "A program"'
  check 'git subtree add' \
    sh -c "$(line '^git subtree add' | sed "s| URL main\$| '$repository' HEAD|")"
  check 'the two files in a subtree' sh -c "$(quickly "$(line '^cc .*third_party/')")"
  prints 'the two files in a subtree' ./main
}

cd "$repository" || exit 1
if ! have git || [ ! -e "$(git --exec-path)/git-subtree" ]; then skip 'git subtree: git has none'
elif [ "$(git rev-parse --is-shallow-repository 2>&1)" != false ]; then
  skip 'git subtree: this is no whole clone'
else in_subtree; fi
finish
