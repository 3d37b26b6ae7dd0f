#!/bin/sh
# Compiles the runtime's core by hand and runs its checks: tests/cpp/check.sh [extra compiler flags]
# CXX and BUILD (a folder) may be set.
set -eu
cd "$(dirname "$0")/../.."
CXX=${CXX:-g++}
BUILD=${BUILD:-build-cpp}
mkdir -p "$BUILD"
FLAGS="-std=c++20 -O2 -g -fPIC -fno-math-errno -fno-trapping-math -fopenmp-simd -fvisibility=hidden -Wall -Wextra -Werror -I. -Itests/cpp"
case $(uname -m) in x86_64) LEVELS="v3 v4"; FLAGS="$FLAGS -DFACULA_HAVE_V3 -DFACULA_HAVE_V4" ;; *) LEVELS="" ;; esac
FLAGS="$FLAGS $*"
OBJECTS=""
compile() {  # source object flags
  $CXX $FLAGS $3 -c "$1" -o "$BUILD/$2"
  OBJECTS="$OBJECTS $BUILD/$2"
}
for source in runtime/core/*.cpp runtime/dispatch/registry.cpp runtime/dispatch/core_operators.cpp runtime/iterate/*.cpp; do
  name=$(basename "$source" .cpp)
  compile "$source" "$name.o" ""
  case $(head -1 "$source") in "// build: levels"*) for level in $LEVELS; do
    compile "$source" "$name.$level.o" "-DFACULA_ISA=$level -march=x86-64-$level"
  done ;; esac
done
for test in core pointwise; do
  $CXX $FLAGS "tests/cpp/test_$test.cpp" $OBJECTS -lpthread -o "$BUILD/test_$test"
  for level in baseline $LEVELS; do FACULA_ISA=$level "$BUILD/test_$test"; done
done
# Autograd over hand-written operators; a small stack, which a long graph must not need.
for source in runtime/autograd/*.cpp tests/cpp/autograd_check.cpp; do
  compile "$source" "autograd_$(basename "$source" .cpp).o" ""
done
$CXX $FLAGS $OBJECTS -lpthread -o "$BUILD/autograd_check"
(ulimit -s 1024; "$BUILD/autograd_check")
