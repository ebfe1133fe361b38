# llama.cpp as libraries to link: exo_llama (llama and ggml, with the internal headers that a ggml
# backend needs), exo_llama_common (chat templates, samplers) and exo_llama_mtmd (vision).
#
# `make deps` has built them in .deps/llama, and every preset links those: sanitizers and g++ too,
# for only our own code is under test there. -DEXO_LLAMA_DIR= names another unpacked source tree,
# with third_party/patches applied; it is built here, with the same flags.
#
# -DEXO_GPU=cuda|metal|rocm|vulkan links a build of it that has this kind of GPU too (`make build
# GPU=...`, docs/howto/gpu.md).
include_guard(GLOBAL)
include(llama_gpu)

set(cache "${PROJECT_SOURCE_DIR}/third_party/llama_cache.cmake")
set(archives
    tools/mtmd/libmtmd.a
    common/libllama-common.a
    common/libllama-common-base.a
    vendor/cpp-httplib/libcpp-httplib.a
    vendor/hash/libvendor-hash.a
    src/libllama.a
    ggml/src/libggml.a
    ${EXO_GPU_ARCHIVES}
    ggml/src/libggml-cpu.a
    ggml/src/libggml-base.a
)

if(EXO_LLAMA_DIR)
    include(ExternalProject)
    set(EXO_LLAMA_SOURCE "${EXO_LLAMA_DIR}")
    set(EXO_LLAMA_BUILD "${PROJECT_BINARY_DIR}/llama")
    list(TRANSFORM archives PREPEND "${EXO_LLAMA_BUILD}/" OUTPUT_VARIABLE byproducts)
    ExternalProject_Add(
        exo_llama_build
        SOURCE_DIR "${EXO_LLAMA_SOURCE}"
        BINARY_DIR "${EXO_LLAMA_BUILD}"
        PREFIX "${PROJECT_BINARY_DIR}/llama-steps"
        CMAKE_GENERATOR Ninja
        CMAKE_ARGS
            -DEXO_GPU=${EXO_GPU}
            -C "${cache}"
            -DCMAKE_C_COMPILER=clang-19
            -DCMAKE_CXX_COMPILER=clang++-19
            -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER}
            -DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
        BUILD_COMMAND "${CMAKE_COMMAND}" --build . --target llama llama-common mtmd
        BUILD_ALWAYS ON # So that an edit of that tree is built.
        BUILD_BYPRODUCTS ${byproducts}
        INSTALL_COMMAND ""
    )
else()
    set(EXO_LLAMA_SOURCE "${PROJECT_SOURCE_DIR}/.deps/llama/source")
    set(EXO_LLAMA_BUILD "${PROJECT_SOURCE_DIR}/.deps/llama/build${EXO_GPU_SUFFIX}")
    if(NOT EXISTS "${EXO_LLAMA_BUILD}/tools/mtmd/libmtmd.a")
        message(
            FATAL_ERROR
            "llama.cpp is not built: run 'make deps GPU=${EXO_GPU}', or set EXO_LLAMA_DIR"
        )
    endif()
endif()
if(NOT EXISTS "${EXO_LLAMA_SOURCE}/include/llama.h")
    message(FATAL_ERROR "no llama.cpp in '${EXO_LLAMA_SOURCE}'")
endif()

# exo_llama_library(name INCLUDE folders ARCHIVES files LINK libraries), relative to llama.cpp.
function(exo_llama_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "INCLUDE;ARCHIVES;LINK")
    list(TRANSFORM arg_INCLUDE PREPEND "${EXO_LLAMA_SOURCE}/")
    list(TRANSFORM arg_ARCHIVES PREPEND "${EXO_LLAMA_BUILD}/")
    add_library(${name} INTERFACE)
    # SYSTEM: its headers are not ours to keep free of warnings.
    target_include_directories(${name} SYSTEM INTERFACE ${arg_INCLUDE})
    target_link_libraries(${name} INTERFACE ${arg_ARCHIVES} ${arg_LINK})
    if(TARGET exo_llama_build)
        add_dependencies(${name} exo_llama_build)
    endif()
endfunction()

exo_llama_library(
    exo_llama
    INCLUDE include ggml/include ggml/src
    ARCHIVES
        src/libllama.a
        ggml/src/libggml.a
        ${EXO_GPU_ARCHIVES}
        ggml/src/libggml-cpu.a
        ggml/src/libggml-base.a
    LINK ${EXO_GPU_LINK} Threads::Threads ${CMAKE_DL_LIBS} m
)
# What is llama.cpp's own business, for tests that go through all it knows.
exo_llama_library(exo_llama_internal INCLUDE src LINK exo_llama)
# `vendor` holds llama.cpp's own nlohmann-json, of another version than Debian's: a file includes
# either its headers or ours.
exo_llama_library(
    exo_llama_common
    INCLUDE common vendor
    ARCHIVES
        common/libllama-common.a
        common/libllama-common-base.a
        vendor/cpp-httplib/libcpp-httplib.a
    LINK exo_llama
)
exo_llama_library(
    exo_llama_mtmd
    INCLUDE tools/mtmd
    ARCHIVES tools/mtmd/libmtmd.a vendor/hash/libvendor-hash.a
    LINK exo_llama
)
