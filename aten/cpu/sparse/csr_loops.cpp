// build: levels fused
#include "aten/cpu/sparse/rows.h"

namespace facula {

FACULA_DEFINE_BY_ISA(CsrLoops<float>, csr_loops_float, {product<float>, sampled<float>})
FACULA_DEFINE_BY_ISA(CsrLoops<double>, csr_loops_double, {product<double>, sampled<double>})

}  // namespace facula
