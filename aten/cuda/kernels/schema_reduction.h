// A reduction of the schema: reduction_step(acc, x) or reduction_takes(acc, x), with reduction_start() or the first
// element.
namespace facula {

struct Reduction {
  struct Element {
    T value;
#if FACULA_REDUCTION_INDEX
    int64_t place;
#endif
  };
  struct Acc : Element {
#if !FACULA_REDUCTION_START
    bool any;
#endif
  };
  static FD Acc init() {
    Acc acc;
#if FACULA_REDUCTION_INDEX
    acc.place = 0;
#endif
#if FACULA_REDUCTION_START
    acc.value = reduction_start();
#else
    acc.value = T(0);
    acc.any = false;
#endif
    return acc;
  }
  static FD void add(Acc& acc, T x, int64_t place) {
    Acc one;
    one.value = x;
#if FACULA_REDUCTION_INDEX
    one.place = place;
#endif
#if !FACULA_REDUCTION_START
    one.any = true;
#endif
    acc = combine(acc, one);
  }
  static FD Acc combine(Acc a, Acc b) {
#if !FACULA_REDUCTION_START
    if (!b.any) return a;
    if (!a.any) return b;
#endif
#if FACULA_REDUCTION_INDEX
    const bool later = reduction_takes(a.value, b.value), earlier = reduction_takes(b.value, a.value);
    return later || (!earlier && b.place < a.place) ? b : a;  // of equals the first
#else
    a.value = reduction_step(a.value, b.value);
    return a;
#endif
  }
  static FD void finish(Acc acc, const ReduceParams&, char* const (&out)[FACULA_OUTS]) {
#if FACULA_REDUCTION_INDEX
    *reinterpret_cast<O0*>(out[0]) = element<O0>(acc.place);
#else
    *reinterpret_cast<O0*>(out[0]) = element<O0>(acc.value);
#endif
  }
};

}  // namespace facula
