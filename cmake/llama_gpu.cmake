# What a GPU backend of llama.cpp adds to linking it: its own archive, and the libraries of its
# vendor, which the archive needs. Sets EXO_GPU_ARCHIVES (relative to llama.cpp's build folder),
# EXO_GPU_LINK and EXO_GPU_SUFFIX (of that folder's name) from EXO_GPU.
#
# Vulkan is tried; CUDA, ROCm and Metal are written after llama.cpp's own CMake files and have not
# met their hardware yet.
include_guard(GLOBAL)

set(EXO_GPU_ARCHIVES "")
set(EXO_GPU_LINK "")
set(EXO_GPU_SUFFIX "")
if(NOT EXO_GPU)
    return()
endif()
set(EXO_GPU_SUFFIX "-${EXO_GPU}")

if(EXO_GPU STREQUAL "vulkan")
    find_package(Vulkan REQUIRED)
    set(EXO_GPU_ARCHIVES ggml/src/ggml-vulkan/libggml-vulkan.a)
    set(EXO_GPU_LINK Vulkan::Vulkan)
elseif(EXO_GPU STREQUAL "cuda")
    find_package(CUDAToolkit REQUIRED)
    set(EXO_GPU_ARCHIVES ggml/src/ggml-cuda/libggml-cuda.a)
    set(EXO_GPU_LINK CUDA::cudart CUDA::cublas CUDA::cuda_driver)
elseif(EXO_GPU STREQUAL "rocm")
    list(APPEND CMAKE_PREFIX_PATH "$ENV{ROCM_PATH}" /opt/rocm)
    find_package(hip REQUIRED)
    find_package(hipblas REQUIRED)
    find_package(rocblas REQUIRED)
    set(EXO_GPU_ARCHIVES ggml/src/ggml-hip/libggml-hip.a)
    set(EXO_GPU_LINK hip::host roc::rocblas roc::hipblas)
elseif(EXO_GPU STREQUAL "metal")
    set(EXO_GPU_ARCHIVES ggml/src/ggml-metal/libggml-metal.a)
    # Accelerate is of the CPU backend, where llama.cpp uses it on a Mac.
    foreach(framework Foundation Metal MetalKit Accelerate)
        find_library(EXO_FRAMEWORK_${framework} ${framework} REQUIRED)
        list(APPEND EXO_GPU_LINK "${EXO_FRAMEWORK_${framework}}")
    endforeach()
else()
    message(FATAL_ERROR "EXO_GPU is '${EXO_GPU}': cuda, metal, rocm, vulkan, or nothing")
endif()
