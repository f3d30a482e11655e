#!/bin/bash
# Test one commit for "git bisect run": exit code 0 for a good one, 1 for a slow one, 125 if it
# cannot be told. Copy this file out of the repository first, because each commit has its own files:
#
#   git bisect start BAD GOOD
#   BUILD="make install" git bisect run /tmp/bisect.sh SIDE LIMIT BENCHMARK [OPTION OF submit]...
#
# SIDE is a set or a baseline of a good commit, LIMIT a loss between noise and regression: 3%.
# The store is that of K8SBENCH_STORE. {commit} in an option stands for the tested commit, which
# BUILD finds in COMMIT.
set -u
side=$1
limit=$2
shift 2
COMMIT=$(git rev-parse --short=12 HEAD)
export COMMIT
name=bisect-$COMMIT

skip() {
    case $1 in
    6 | 130) exit 128 ;; # no cluster, or Ctrl-C: end the bisection
    *) exit 125 ;;
    esac
}

k8sbench compare "$side" "$side" >/dev/null || exit 128 # there is no such side
bash -c "${BUILD:-true}" || exit 125
k8sbench submit "${@//\{commit\}/$COMMIT}" --set "$name" || skip $?

k8sbench compare "$side" "$name" --fail-on-regression "$limit" --fail-on-undecided
code=$?
# Sets of other commits would count as the usual variation of the case.
k8sbench store remove "$name" --yes || exit 128
[ $code = 7 ] && exit 1
[ $code = 0 ] || skip $code
