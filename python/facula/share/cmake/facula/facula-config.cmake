# find_package(facula): with `-DCMAKE_PREFIX_PATH=$(python -c "import facula; print(facula.utils.cmake_prefix_path)")`.
#
#   facula_add_extension(NAME SOURCE... [OPS FILE])
#
# makes the Python module NAME of C++ sources, of which one has FACULA_EXTENSION(NAME, m), or of a file of operators
# with the sources of its kernels.
# facula::facula is the target with the flags and folders of headers alone.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND ${Python_EXECUTABLE} -m facula.utils.cpp_extension cmake
  OUTPUT_VARIABLE _facula_facts OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE _facula_failed)
if(_facula_failed)
  set(facula_FOUND FALSE)
  set(facula_NOT_FOUND_MESSAGE "${Python_EXECUTABLE} cannot import facula; set Python_EXECUTABLE to the one that can")
  return()
endif()
cmake_language(EVAL CODE "${_facula_facts}")  # facula_VERSION, facula_FLAGS, facula_INCLUDE_DIRS, facula_LINK

if(NOT TARGET facula::facula)
  add_library(facula::facula INTERFACE IMPORTED)
  target_include_directories(facula::facula SYSTEM INTERFACE ${facula_INCLUDE_DIRS} ${Python_INCLUDE_DIRS})
  target_compile_options(facula::facula INTERFACE ${facula_FLAGS})
  target_link_options(facula::facula INTERFACE ${facula_LINK})
endif()

function(facula_add_extension name)
  cmake_parse_arguments(PARSE_ARGV 1 asked "" "OPS" "")
  set(sources ${asked_UNPARSED_ARGUMENTS})
  if(asked_OPS)
    get_filename_component(ops ${asked_OPS} ABSOLUTE)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_generated)
    set(generated ${facula_GENERATED})
    list(TRANSFORM generated PREPEND ${folder}/)
    add_custom_command(
      OUTPUT ${generated}
      COMMAND ${Python_EXECUTABLE} -m facula.codegen ${ops} --out ${folder} --module ${name}
      DEPENDS ${ops}
      COMMENT "Generating the operators of ${name}")
  endif()
  Python_add_library(${name} MODULE WITH_SOABI ${sources} ${generated})
  target_link_libraries(${name} PRIVATE facula::facula)
  if(asked_OPS)
    target_include_directories(${name} PRIVATE ${folder})
  endif()
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${Python_EXECUTABLE} -m facula.utils.cpp_extension finish $<TARGET_FILE:${name}>)
endfunction()
