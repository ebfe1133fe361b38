# How llama.cpp is built: the initial cache (`cmake -C`) of tools/deps and of cmake/llama.cmake.
# Static libraries; its bench and its server are targets that only `make bench` and tests build.
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
