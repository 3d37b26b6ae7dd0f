// OpenBLAS, with LAPACK in it, opened at run time from the wheel `scipy-openblas32` on the first use. FACULA_BLAS names
// another file (or none that exists).
#pragma once

#include <string>

namespace facula::openblas {

// Opens the library if that has not been tried; its path, or nothing where there is none.
const std::string& file();

// A function of the library by its name there without the prefix "scipy_"; null where it, or the library, is absent.
void* find(const std::string& name);

}  // namespace facula::openblas
