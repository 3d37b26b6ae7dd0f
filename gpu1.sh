set -x
mkdir -p $OUT
t0=$SECONDS
rm -rf .v; which python pip
python -m pip install -q --no-index --no-deps .whl/*.whl
(time python -m pip install -v --no-build-isolation --no-deps -C cmake.define.FACULA_WERROR=ON -e .) > $OUT/build.log 2>&1 || { tail -50 $OUT/build.log; exit 1; }
echo built $((SECONDS-t0))
nvidia-smi -L
(time python -m facula.cuda.warmup) > $OUT/warm.log 2>&1; tail -5 $OUT/warm.log
(time timeout 250 python -m pytest -q -n 10 -m cuda tests/cuda --durations=15) > $OUT/cuda.log 2>&1; tail -60 $OUT/cuda.log
python $PWD/gpu_ce.py > $OUT/ce.log 2>&1; tail -20 $OUT/ce.log
echo total $((SECONDS-t0))
