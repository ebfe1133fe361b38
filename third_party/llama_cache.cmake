# How llama.cpp is built: the initial cache (`cmake -C`) of tools/deps and of cmake/llama.cmake.
# Static libraries; its bench and its server are targets that only `make bench` and tests build.
# -DEXO_GPU= before the -C names the one kind of GPU that is built besides the CPU.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(BUILD_SHARED_LIBS OFF CACHE BOOL "")
set(LLAMA_BUILD_TESTS OFF CACHE BOOL "")
set(LLAMA_BUILD_EXAMPLES OFF CACHE BOOL "")
set(LLAMA_BUILD_TOOLS ON CACHE BOOL "") # mtmd is one of them.
set(LLAMA_BUILD_SERVER ON CACHE BOOL "")
set(LLAMA_CURL OFF CACHE BOOL "") # Nothing of it fetches models: that is exo's work.
set(LLAMA_OPENSSL OFF CACHE BOOL "")
set(GGML_OPENMP OFF CACHE BOOL "") # Ranks may share a machine: ggml's own threads suit that better.
set(GGML_NATIVE ON CACHE BOOL "")

set(kind_cuda CUDA)
set(kind_metal METAL)
set(kind_rocm HIP)
set(kind_vulkan VULKAN)
foreach(kind cuda metal rocm vulkan)
    if(EXO_GPU STREQUAL kind)
        set(GGML_${kind_${kind}} ON CACHE BOOL "")
    else() # Also where llama.cpp would choose it by itself.
        set(GGML_${kind_${kind}} OFF CACHE BOOL "")
    endif()
endforeach()
set(GGML_BLAS OFF CACHE BOOL "") # On a Mac it would be on, as one more device.
set(GGML_CUDA_NCCL OFF CACHE BOOL "") # Ranks exchange sums by our sockets.
