#!/bin/sh
# The plots can be drawn again from the figures that are published with them, and the pictures
# published are of these figures.
. tests/build/lib.sh
drawn="$scratch/plots"

refuses 'make plots without gnuplot' 'make plots: gnuplot is not installed' \
  $MAKE --no-print-directory plots GNUPLOT=no-such-gnuplot PLOTSDIR="$drawn"
mkdir -p "$scratch/empty/docs/plots"
cp Makefile gpured.h "$scratch/empty"
refuses 'make plots without figures' 'docs/plots/gpu.csv is missing' \
  $MAKE --no-print-directory -C "$scratch/empty" plots GNUPLOT=true PLOTSDIR="$drawn"
same 'nothing is drawn then' '' "$(ls "$drawn" 2>/dev/null)"

for file in docs/plots/gpu.csv docs/plots/cpu.csv; do
  [ -f $file ] || { skip "plots: $file is not there yet"; finish; }
done
command -v gnuplot >/dev/null || { skip 'plots: no gnuplot'; finish; }
check 'make plots' $MAKE -s --no-print-directory plots PLOTSDIR="$drawn"
same 'gnuplot has nothing to say' '' "$(cat "$scratch/log")"
same 'the plots drawn are those published' "$(cd docs/plots && ls ./*.svg)" \
  "$(cd "$drawn" && ls ./*.svg)"
for picture in docs/plots/*.svg; do
  new="$drawn/${picture##*/}"
  same "$picture: ends" '</svg>' "$(grep . "$new" | tail -n 1)"
  # Another gnuplot draws it otherwise.
  if [ "$(grep 'Produced by' "$picture")" = "$(grep 'Produced by' "$new")" ]; then
    check "$picture: is drawn from the figures beside it" cmp "$picture" "$new"
  else
    skip "$picture: was drawn by another gnuplot"
  fi
done
finish
