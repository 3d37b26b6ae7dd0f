// What extensions must have been built for; a file of its own, since it changes with every header.
#include "facula/abi.h"

#include "runtime/bindings/types/types.h"

namespace facula::python {

const char* abi_stamp() { return FACULA_ABI; }

}  // namespace facula::python
