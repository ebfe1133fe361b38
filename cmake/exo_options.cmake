# Flags that every target of ours shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions are part of the product (STYLE.md 3.2.5), so NDEBUG is never ours to set; it would
# only switch off third-party asserts, which is fine.
find_program(CCACHE ccache)
if(CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

add_library(exo_options INTERFACE)
target_compile_options(
    exo_options
    INTERFACE
        -Wall
        -Wextra
        -Wconversion
        -Wshadow
        -Wnon-virtual-dtor
        -Wno-missing-field-initializers # Designated initializers may rely on defaults.
        -Werror
)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Protocol Buffers' and Boost's macros expand to these inside our files.
    target_compile_options(exo_options INTERFACE -Wno-unused-command-line-argument)
    target_link_options(exo_options INTERFACE -fuse-ld=lld)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False positives of g++ 12 inside libstdc++ and Boost at -O2.
    target_compile_options(
        exo_options
        INTERFACE -Wno-maybe-uninitialized -Wno-dangling-pointer -Wno-stringop-overflow
                  -Wno-stringop-overread -Wno-array-bounds -Wno-restrict
    )
endif()
if(EXO_SANITIZER)
    target_compile_options(
        exo_options
        INTERFACE -fsanitize=${EXO_SANITIZER} -fno-omit-frame-pointer -fno-sanitize-recover=all
    )
    target_link_options(exo_options INTERFACE -fsanitize=${EXO_SANITIZER})
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

# Asio in its header-only form costs seconds in each driver; its code is compiled once instead.
add_library(exo_asio STATIC "${CMAKE_CURRENT_LIST_DIR}/asio.cpp")
target_compile_definitions(
    exo_asio
    PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_ERROR_CODE_HEADER_ONLY
)
target_compile_features(exo_asio PUBLIC cxx_std_20)
target_link_libraries(exo_asio PUBLIC Boost::headers Threads::Threads)
if(EXO_SANITIZER)
    target_compile_options(exo_asio PUBLIC -fsanitize=${EXO_SANITIZER} -fno-omit-frame-pointer)
endif()
