# The layers of exo. A library's layer is its first folder under src/, and it may link its own
# layer and those named here: nothing else. A wrong edge fails at configure time. tools/tidy.py
# reads this table and checks includes against it.
set(EXO_MAY_USE_base       "")
set(EXO_MAY_USE_model      base)
set(EXO_MAY_USE_core       base model)
set(EXO_MAY_USE_net        base)
set(EXO_MAY_USE_ipc        base model)
set(EXO_MAY_USE_collective base)
set(EXO_MAY_USE_system     base model)
set(EXO_MAY_USE_engine     base model collective)
set(EXO_MAY_USE_storage    base model core)
set(EXO_MAY_USE_api        base model)
set(EXO_MAY_USE_runner     base model ipc engine collective)
set(EXO_MAY_USE_node       base model core net ipc storage system api)
set(EXO_MAY_USE_main       base model core net ipc storage system api runner node engine collective)

# exo_library(NAME core_election HEADERS election.hpp SOURCES election.cpp DEPS exo::base)
# makes the target exo::core_election. EXTERNAL names targets that are not ours.
function(exo_library)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "HEADERS;SOURCES;DEPS;EXTERNAL")
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/src" "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REGEX MATCH "^[^/]+" layer "${folder}")
    foreach(dep IN LISTS arg_DEPS)
        string(REGEX MATCH "^exo::([a-z]+)" _ "${dep}")
        if(NOT CMAKE_MATCH_1 STREQUAL layer AND NOT CMAKE_MATCH_1 IN_LIST EXO_MAY_USE_${layer})
            message(FATAL_ERROR "${folder}: layer '${layer}' may not use '${dep}'")
        endif()
    endforeach()
    if(arg_SOURCES)
        add_library(exo_${arg_NAME} STATIC ${arg_SOURCES})
        set(scope PUBLIC)
    else()
        add_library(exo_${arg_NAME} INTERFACE)
        set(scope INTERFACE)
    endif()
    add_library(exo::${arg_NAME} ALIAS exo_${arg_NAME})
    # The header set makes `all_verify_interface_header_sets` compile each header alone.
    target_sources(
        exo_${arg_NAME}
        ${scope} FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${arg_HEADERS}
    )
    target_link_libraries(exo_${arg_NAME} ${scope} exo_options ${arg_DEPS} ${arg_EXTERNAL})
endfunction()

# exo_test(NAME core_election_test LABELS unit TIMEOUT 10 SOURCES tests/x.cpp DEPS exo::...)
function(exo_test)
    if(NOT EXO_TESTS)
        return()
    endif()
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;DEPS;LABELS;ARGS")
    add_executable(${arg_NAME} ${arg_SOURCES})
    target_link_libraries(${arg_NAME} PRIVATE exo_options ${arg_DEPS} GTest::gtest_main)
    target_compile_definitions(
        ${arg_NAME} PRIVATE EXO_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    )
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} ${arg_ARGS})
    # A sanitizer makes a test several times slower; the limit is against hangs, not for speed.
    math(EXPR timeout_s "${arg_TIMEOUT} * 6")
    set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${timeout_s})
endfunction()
