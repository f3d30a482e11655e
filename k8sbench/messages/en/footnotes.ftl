# Lines below tables.

footnote = { $head }: { $said }
footnote-of-run = { $head } ({ $run }): { $said }
footnote-of-runs = { $head } ({ $runs } runs): { $said }
footnote-of-all = { $head }: all rows; { $said }
footnote-of-some = { $head }: { $count } of { $rows } rows; { $said }
more-notes = and { $number } more causes: k8sbench explain RUN names all of a run
no-room = { $columns }: no room in { $width } columns; { $format } has it
interval-of-one-set = { $title }: 95 % intervals of the repeats of one set; sets differ more (see `history`)
fastest-batch = fastest batch per GPU of { $cases }: { $batch }
no-speedup = no { $title }: { $why }
unit-of = { $unit } of { $benchmarks }
finding-quoted = { $text }
reason-with-place = { $said } See { $place }.
reason-with-places = { $said } See { $place } and { $more } more.
