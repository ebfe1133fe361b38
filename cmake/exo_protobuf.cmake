# Protocol Buffers: generated code is compiled apart, without our warnings, and its headers are
# system headers. Paths are those of src/: `src/net/gossipsub/rpc.proto` becomes
# `#include "net/gossipsub/rpc.pb.h"`. Each .proto has `option optimize_for = LITE_RUNTIME;`.
include_guard(GLOBAL)

# Global: the folder that includes this first is not the only one.
find_package(Protobuf REQUIRED GLOBAL)

# exo_protobuf(NAME net_gossipsub_rpc PROTOS rpc.proto)
# makes the target exo_net_gossipsub_rpc, for EXTERNAL of exo_library().
function(exo_protobuf)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "PROTOS")
    set(generated "${PROJECT_BINARY_DIR}/generated")
    set(sources "")
    foreach(proto IN LISTS arg_PROTOS)
        set(path "${CMAKE_CURRENT_SOURCE_DIR}/${proto}")
        file(RELATIVE_PATH relative "${PROJECT_SOURCE_DIR}/src" "${path}")
        string(REGEX REPLACE "\\.proto$" ".pb" stem "${generated}/${relative}")
        file(MAKE_DIRECTORY "${generated}")
        add_custom_command(
            OUTPUT "${stem}.cc" "${stem}.h"
            COMMAND protobuf::protoc "--proto_path=${PROJECT_SOURCE_DIR}/src"
                    "--cpp_out=${generated}" "${path}"
            DEPENDS "${path}" protobuf::protoc
            COMMENT "Protocol Buffers: ${relative}"
            VERBATIM
        )
        list(APPEND sources "${stem}.cc" "${stem}.h")
    endforeach()
    add_library(exo_${arg_NAME} STATIC ${sources})
    target_compile_features(exo_${arg_NAME} PUBLIC cxx_std_20)
    target_compile_options(exo_${arg_NAME} PRIVATE -w)
    target_include_directories(exo_${arg_NAME} SYSTEM PUBLIC "${generated}")
    target_link_libraries(exo_${arg_NAME} PUBLIC protobuf::libprotobuf-lite)
    if(EXO_SANITIZER)
        target_compile_options(
            exo_${arg_NAME} PRIVATE -fsanitize=${EXO_SANITIZER} -fno-omit-frame-pointer
        )
    endif()
endfunction()
