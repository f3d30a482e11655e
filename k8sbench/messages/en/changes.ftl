# What somebody should look at: findings of the page, counts, and causes.

found-missing = missing
found-accepted = level accepted
found-recovered = recovered
found-was-open = was open since { $set }
found-in = ({ $change } in { $set })
found-step = step
found-drift = drift
found-unconfirmed = unconfirmed
found-once = once
found-in-course = in the course of { $set } to { $until }
found-together = all { $cases } cases together
found-open = open
found-changed = changed
found-between = between { $low } and { $high } { $unit }
found-apart = { $apart } apart
found-open-since = since { $set } (open: { $change } since { $since })
rows-valid = Valid rows: { $valid } of { $rows }
count-rows = { $number } { $state }
count-findings = { $number } { $label }
count-slower = { $number } slower
count-faster = { $number } faster
count-slower-between = { $number } slower between these two sets
count-faster-between = { $number } faster between these two sets
count-back = { $number } { $number ->
    [one] is
   *[other] are
  } back after one night
count-no-difference = { $number } { $number ->
    [one] shows
   *[other] show
  } no change
count-undecided = { $number } { $number ->
    [one] is
   *[other] are
  } undecided
count-no-figure = { $number } { $number ->
    [one] has
   *[other] have
  } no figure on a side
count-not-comparable = { $number } { $number ->
    [one] is
   *[other] are
  } not comparable
count-one-side = { $number } { $number ->
    [one] has
   *[other] have
  } no counterpart
cause = { $facts }: { $where }.
cause-joint = { $facts } (cannot be told apart): { $where }.
cause-in-all = in all cases
cause-in = in { $cases }
cause-nodes = { $number ->
    [one] node
   *[other] nodes
  } { $names }
cause-change = { $from } → { $to }
cases-slower = slower
cases-faster = faster
cause-in-some = in { $number } of the { $of } { $kind } cases ({ $cases })
cause-in-the-case = in the { $kind } case
cause-in-all-cases = in all { $number } { $kind } cases
cause-also-unchanged = but in { $number } of the { $of } unchanged, too
cause-in-no-unchanged = in none of the { $number } unchanged
found-not-judged = not judged
