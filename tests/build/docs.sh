#!/bin/sh
# The reference: gpured(3) is clean, agrees with gpured.h and its example does what it says; the
# examples in gpured.h run; "make docs" has nothing to complain of, and would have.
. tests/build/lib.sh
page=docs/gpured.3 out="$scratch/out"
link="-L$BUILD -lgpured $LDFLAGS $LDLIBS -lm"

# Functions that gpured.h declares, and its declarations on one line.
sed -n 's/^[A-Za-z_ ]*GPURED_API [^(]*[ *]\(gpured_[a-z0-9_]*\)(.*/\1/p
  s/^static inline [^(]*[ *]\(gpured_[a-z0-9]*_[a-z0-9_]*\)(.*/\1/p' gpured.h |
  grep -v __ | sort -u >"$scratch/declared"
tr -s ' \n' '  ' <gpured.h >"$scratch/flat"

# ---- gpured(3) ---------------------------------------------------------------------------------
if has_man; then
  LC_ALL=C.UTF-8 MANWIDTH=1000 man --warnings=w -l $page >"$scratch/page" 2>"$scratch/log"
  same 'gpured(3): warnings' '' "$(cat "$scratch/log")"
  sed -n '/^SYNOPSIS/,/^DESCRIPTION/s/^ *\(gpured_[a-z_]*(.*)\);$/\1/p' "$scratch/page" \
    >"$scratch/fns"
  same 'gpured(3): more than 9 functions in the synopsis' yes \
    "$([ "$(wc -l <"$scratch/fns")" -gt 9 ] && echo yes)"
  while IFS= read -r function; do
    check "gpured(3): $function is what gpured.h declares" grep -q -F -e "$function" "$scratch/flat"
  done <"$scratch/fns"
else
  skip 'gpured(3): man is not there'
fi
if command -v mandoc >/dev/null; then check 'gpured(3): mandoc' mandoc -T lint -W warning $page
else skip 'gpured(3): mandoc is not there'; fi
same 'functions that gpured(3) does not name' '' \
  "$(sed 's/_f64$/_f32/' "$scratch/declared" | sort -u | while read -r f; do
    grep -q -e "^\.Fn $f\( \|\$\)" -e "^\.Fo $f\$" $page || echo "$f"; done)"

sed -n '/^typedef enum gpured_\(op\|dtype\|status\) {/,/^}/s/^  GPURED_\([A-Z0-9_]*\) = .*/\1/p' \
  gpured.h >"$scratch/values"
same 'more than 30 operations, types and statuses' yes \
  "$([ "$(wc -l <"$scratch/values")" -gt 30 ] && echo yes)"
same 'operations, types and statuses that gpured(3) does not name' '' \
  "$(while read -r value; do
    grep -q -w -e "$value" -e "GPURED_$value" $page || echo "$value"; done <"$scratch/values")"

awk '/^\.Ed/ { exit } on; /^\.Bd/ { on = 1 }' $page | sed 's/\\e/\\/g' >"$scratch/main.c"
check 'gpured(3): its example' $CC -std=c99 -Wall -Wextra -pedantic -Werror $CPPFLAGS -I. \
  "$scratch/main.c" $link -o "$scratch/main"
same 'gpured(3): its example prints' "$(sed -n 's/^\.Ql \(.*\) \.$/\1/p' $page)" \
  "$(LD_LIBRARY_PATH=$BUILD "$scratch/main" 2>&1)"

# ---- the examples of the header ----------------------------------------------------------------
# Each becomes a function that returns the status it ends with.
{ printf '#include <stdlib.h>\n#include "gpured.h"\n'
  awk '/@endcode/ && on { print "  return status;\n}"; on = 0 }
    on { sub(/^ \* ?/, ""); print }
    /@code/ { printf "static gpured_status example%d(void) {\n", ++n; on = 1 }
    END { print "int main(void) {"
      for (i = 1; i <= n; ++i) print "  if (example" i "()) return " i ";"
      print "  return 0;\n}" }' gpured.h; } >"$scratch/examples.c"
same 'more than 7 examples in gpured.h' yes \
  "$([ "$(grep -c '^static' "$scratch/examples.c")" -gt 7 ] && echo yes)"
check 'the examples in gpured.h' $CC -std=c99 -Wall -Wextra -pedantic -Werror \
  -Wno-unused-variable -Wno-unused-but-set-variable $CPPFLAGS -I. "$scratch/examples.c" $link \
  -o "$scratch/examples"
check 'the examples in gpured.h run' env LD_LIBRARY_PATH="$BUILD" "$scratch/examples"

# Doxygen before 1.9.6 does not miss the comment of an enumerator.
enumerators() {
  awk '/^  GPURED_[A-Z0-9][A-Z0-9_]* = / && !/\/\*\*</ &&
      last !~ /^ +(\/\*\*|\*) .*\*\/$/ { print $1 }
    { last = $0 }'
}
same 'enumerators without a comment' '' "$(enumerators <gpured.h)"
same 'enumerators without a comment, when there are some' 'GPURED_OK GPURED_BF16' \
  "$(sed 's|/\*\* Done. \*/||; s|\(GPURED_BF16 = 4,\).*|\1|' gpured.h | enumerators | tr '\n' ' ' |
    sed 's/ $//')"

# ---- make docs ---------------------------------------------------------------------------------
mk() { $MAKE -s --no-print-directory docs "$@"; }
refuses 'make docs without Doxygen' 'is not there' mk DOXYGEN=no-such-doxygen BUILD="$out"
if ! command -v "${DOXYGEN:-doxygen}" >/dev/null; then skip 'make docs: no Doxygen'; finish; fi
check 'make docs' mk BUILD="$out"
same 'make docs: warnings' '' "$(cat "$scratch/log")"
check 'make docs: HTML' test -s "$out/docs/html/index.html"
same 'functions without a manual page' '' \
  "$(while read -r f; do [ -s "$out/docs/man/man3/$f.3" ] || echo "$f"; done <"$scratch/declared")"
same 'pages that are not of gpured' '' \
  "$(ls "$out/docs/man/man3" | grep -v -i '^gpured' | tr '\n' ' ')"
same 'private names in the pages' '' \
  "$(cat "$out"/docs/man/man3/* "$out"/docs/html/*.html | sed 's/<[^>]*>//g' |
    grep -i -o -w 'gpured__[a-z0-9_]*' | sort -u | tr '\n' ' ')"

mkdir "$scratch/src"
cp -R docs Makefile "$scratch/src"
undocumented() { # NAME SED-SCRIPT: a header with less documentation is refused, with the name
  sed "$2" gpured.h >"$scratch/src/gpured.h"
  refuses "make docs: $1 without a comment" "$1" mk -C "$scratch/src" BUILD="$out"
}
undocumented gpured_dtype_size 's|^/\*\* Bytes of an element.*||'
undocumented device_id 's|\(int32_t device_id;\).*|\1|'
undocumented GPURED_ORDER 's|^/\*\* The number of the order.*||'
finish
