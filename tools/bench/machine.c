// What this machine can do: the rates that rows are held against. Built by machine.py, called
// with the interpreter's lock released, so that several Python threads run these at once.
#include <stddef.h>

// STREAM's copy, add and their like with more operands, as the compiler vectorises them.
void copy(const float *restrict a, float *restrict c, size_t n) {
  for (size_t i = 0; i < n; i++) c[i] = a[i];
}

void add(const float *restrict a, const float *restrict b, float *restrict c, size_t n) {
  for (size_t i = 0; i < n; i++) c[i] = a[i] + b[i];
}

#ifdef __AVX512F__
#define BYTES 64
#define CHAINS 16
#elif defined(__AVX__)
#define BYTES 32
#define CHAINS 12
#else
#define BYTES 16
#define CHAINS 12
#endif

// Independent chains of multiply-add, kept in registers: the peak of the arithmetic units.
#define PEAK(NAME, TYPE)                                                         \
  TYPE NAME(size_t rounds) {                                                     \
    typedef TYPE vector __attribute__((vector_size(BYTES)));                     \
    vector x[CHAINS], m = {0}, total = {0};                                      \
    m += (TYPE)0.999999;                                                         \
    for (int j = 0; j < CHAINS; j++) x[j] = m + (TYPE)j;                         \
    for (size_t i = 0; i < rounds; i++) {                                        \
      _Pragma("GCC unroll 16") for (int j = 0; j < CHAINS; j++) x[j] = x[j] * m + m; \
    }                                                                            \
    for (int j = 0; j < CHAINS; j++) total += x[j];                              \
    return total[0];                                                             \
  }

PEAK(peak_float32, float)
PEAK(peak_float64, double)

// Operations of one round.
size_t operations_float32(void) { return 2 * CHAINS * BYTES / sizeof(float); }
size_t operations_float64(void) { return 2 * CHAINS * BYTES / sizeof(double); }
