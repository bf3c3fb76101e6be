#!/bin/sh
# An installed library as other builds find it: the files, pkg-config's answers, a program linked
# with the shared and with the static library, and an uninstall that leaves nothing.
. tests/build/lib.sh
root="$scratch/root" prefix=/opt/gpured
install_to() { # ROOT TARGET VARIABLE...
  to=$1 target=$2; shift 2
  $MAKE -s --no-print-directory $target DESTDIR="$to" PREFIX=$prefix LIBDIR=$prefix/lib \
    INCLUDEDIR=$prefix/include PKGCONFDIR=$prefix/lib/pkgconfig MANDIR=$prefix/share/man "$@"
}
files() { (cd "$1" && find . ! -type d | sort | tr '\n' ' '); }

check 'install' install_to "$root" install
lib=./opt/gpured/lib major=${VERSION%%.*}
same 'installed files' "./opt/gpured/include/gpured.h $lib/libgpured.a\
 $lib/libgpured.so $lib/libgpured.so.$major $lib/libgpured.so.$VERSION $lib/pkgconfig/gpured.pc\
 ./opt/gpured/share/man/man3/gpured.3 " \
  "$(files "$root")"
if has_man; then
  same 'man finds gpured(3) under the prefix' "$root$prefix/share/man/man3/gpured.3" \
    "$(man -M "$root$prefix/share/man" -w 3 gpured)"
else
  skip 'gpured(3): man is not there'
fi
check 'the links of the shared library lead to it' test -s "$root$prefix/lib/libgpured.so"

run_with() { # NAME PROGRAM
  same "$1: result" 'out: [15.0, 51.0, 87.0, 123.0]' \
    "$(LD_LIBRARY_PATH="$root$prefix/lib" "$2" | sed -n 's/^ *\(out: \[15.*\)$/\1/p' | head -n 1)"
}
needs() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(libgpured[^]]*\)\].*/\1/p'; }

# A second root without the shared library: there -lgpured is the static one.
cp -R "$root" "$scratch/archive"
rm -f "$scratch/archive$prefix/lib/"*.so*

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_LIBDIR="$root$prefix/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
  same 'pkg-config --modversion' "$VERSION" "$(pkg-config --modversion gpured)"
  same 'pkg-config --cflags: only the include path' "-I$root$prefix/include" \
    "$(pkg-config --cflags gpured | sed 's/ *$//')"
  same 'pkg-config --libs' "-L$root$prefix/lib -lgpured" "$(pkg-config --libs gpured | sed 's/ *$//')"
  same 'pkg-config --variable=backends' "cpu${HAVE_CUDA:+ cuda}" \
    "$(pkg-config --variable=backends gpured)"
  check 'axis_sum.c with the shared library' $CC $CFLAGS examples/axis_sum.c \
    $(pkg-config --cflags --libs gpured) $LDFLAGS -lm -o "$scratch/shared"
  run_with 'axis_sum.c with the shared library' "$scratch/shared"
  export PKG_CONFIG_LIBDIR="$scratch/archive$prefix/lib/pkgconfig"
  export PKG_CONFIG_SYSROOT_DIR="$scratch/archive"
  check 'axis_sum.c with the static library' $CC $CFLAGS examples/axis_sum.c \
    $(pkg-config --cflags --static --libs gpured) $LDFLAGS $LDLIBS -o "$scratch/static"
  run_with 'axis_sum.c with the static library' "$scratch/static"
  if command -v readelf >/dev/null; then
    same 'SONAME that a program asks for' "libgpured.so.$major" "$(needs "$scratch/shared")"
    same 'no shared library asked for' '' "$(needs "$scratch/static")"
  else
    skip 'SONAME: readelf is not there'
  fi
else
  skip 'pkg-config is not there'
fi

check 'uninstall' install_to "$root" uninstall
same 'files left by uninstall' '' "$(files "$root")"

# Folders outside and inside PREFIX.
check 'install with its own folders' install_to "$root" install LIBDIR=/opt/other/lib64 \
  PKGCONFDIR=/opt/pc INCLUDEDIR=/opt/gpured/include/gpured MANDIR=/opt/man
check 'manual page in its own folder' cmp docs/gpured.3 "$root/opt/man/man3/gpured.3"
same 'libdir outside the prefix' 'libdir=/opt/other/lib64' "$(grep '^libdir' "$root/opt/pc/gpured.pc")"
same 'includedir inside the prefix' 'includedir=${prefix}/include/gpured' \
  "$(grep '^includedir' "$root/opt/pc/gpured.pc")"
same 'placeholders left in gpured.pc' '' "$(grep '@' "$root/opt/pc/gpured.pc")"
check 'shared library in its own folder' test -s "$root/opt/other/lib64/libgpured.so"
finish
