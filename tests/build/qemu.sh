#!/bin/sh
# The published vectors on processors of other makes, byte orders and widths, under QEMU's user
# emulation: whatever Debian's cross compilers are installed for. QEMU_TARGETS names some of them.
. tests/build/lib.sh
warnings='-Wall -Wextra -Wconversion -Wsign-conversion -pedantic -Werror'

# target NAME COMPILER EMULATOR FLAGS...
target() {
  arch=$1 compiler=$2 emulator=$3; shift 3
  case " ${QEMU_TARGETS:-$arch} " in *" $arch "*) ;; *) return ;; esac
  for tool in "$compiler" "$emulator"; do
    command -v "$tool" >/dev/null || { skip "$arch: no $tool"; return; }
  done
  rm -f "$scratch/check"
  check "$arch: compiled" "$compiler" "$@" $warnings -O2 -I. -static tests/golden_check.c \
    gpured_omp.c -o "$scratch/check" -lm
  [ -x "$scratch/check" ] || return
  check "$arch: golden vectors" "$emulator" "$scratch/check" tests/golden/golden.txt
  tail -n 1 "$scratch/log" | sed "s/^/$arch: /"
}

target aarch64 aarch64-linux-gnu-gcc qemu-aarch64-static -std=c99
target i386 i686-linux-gnu-gcc qemu-i386-static -std=c99 -msse2 -mfpmath=sse
target s390x s390x-linux-gnu-gcc qemu-s390x-static -std=gnu99 # strict C: floats in double registers
target armhf arm-linux-gnueabihf-gcc qemu-arm-static -std=c99
target ppc64el powerpc64le-linux-gnu-gcc qemu-ppc64le-static -std=c99
target riscv64 riscv64-linux-gnu-gcc qemu-riscv64-static -std=c99
finish
