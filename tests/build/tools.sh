#!/bin/sh
# make install-tools: the program runs where no library is installed, its man page says what --help
# says and nothing that is not so, and uninstall takes both away.
. tests/build/lib.sh
root="$scratch/root" prefix=/opt/gpured
make_in() { # TARGET
  $MAKE -s --no-print-directory "$1" DESTDIR="$root" PREFIX=$prefix BINDIR=$prefix/bin \
    MANDIR=$prefix/share/man
}
files() { (cd "$root" && find . ! -type d | sort | tr '\n' ' '); }

check 'install-tools' make_in install-tools
same 'installed files' './opt/gpured/bin/gpured-npy ./opt/gpured/share/man/man1/gpured-npy.1 ' "$(files)"
tool="$root$prefix/bin/gpured-npy" page="$root$prefix/share/man/man1/gpured-npy.1"
same 'it runs' '5.8433332' "$("$tool" reduce mean --axis 0 examples/data/iris.npy 2>&1 |
  sed -n 's/^\[\([0-9.]*\) .*/\1/p')"
same 'its version' "gpured-npy $VERSION" "$("$tool" --version | cut -d ' ' -f 1-2)"

# ---- the man page -----------------------------------------------------------------------------------
"$tool" --help >"$scratch/help"
sed 's/\\-/-/g; s/\\f[A-Z]//g' "$page" >"$scratch/page"
options() { grep -o -E -e '(^|[^a-z-])(--[a-z]+|-o)' "$1" | grep -o -E -e '-[a-z-]+' | sort -u; }
same 'options of the page: those of --help' "$(options "$scratch/help")" "$(options "$scratch/page")"
ops=$(sed -n '/OP: /,/^ *gpured-npy\|^ *--\|^$/p' "$scratch/help" |
  grep -v -e gpured-npy | tr -cs 'a-z0-9_' '\n' | grep -x -E \
  'sum|prod|min|max|mean|sumsq|norm[12]|absmax|arg(min|max)|logsumexp|var|std|any|all|count_nonzero' | sort -u)
same 'operations in the help' 17 "$(echo "$ops" | grep -c '')"
for op in $ops; do
  same "the page names $op" yes "$(grep -q -w -e "$op" "$scratch/page" && echo yes)"
done
if ! has_man || ! command -v groff >/dev/null; then
  skip 'the page as man shows it: no man or groff'
elif ! MANWIDTH=80 man -l "$page" >"$scratch/shown" 2>/dev/null || [ ! -s "$scratch/shown" ]; then
  skip 'the page as man shows it: this man does not show files'
else
  same 'warnings of man' '' "$(man --warnings -l "$page" 2>&1 >/dev/null)"
  for head in NAME SYNOPSIS OPTIONS 'EXIT STATUS' EXAMPLES; do
    same "section $head" 1 "$(grep -c "^$head" "$scratch/shown")"
  done
fi

check 'uninstall' make_in uninstall
same 'files left by uninstall' '' "$(files)"
finish
