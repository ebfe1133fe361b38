// SPDX-License-Identifier: Apache-2.0
//
// A device of a cluster with a GPU below it, without a GPU: the foreign device has memory of its
// own and only the operations that a test grants it. The reference is the same graph on the CPU.
#include "collective/local_group.hpp"
#include "engine/cluster_device/cluster.hpp"
#include "engine/cluster_device/gpu_compute.hpp"
#include "engine/cluster_device/tests/foreign_device.hpp"
#include "engine/tests/nmse.hpp"

#include <ggml-alloc.h>
#include <ggml-impl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace exo::engine {
namespace {

constexpr std::int64_t width = 512;
constexpr std::int64_t inner = 256;
constexpr std::int64_t tokens = 3;
constexpr std::int64_t cache_rows = 8;

std::vector<float> numbers(std::size_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<float> list(count);
    for (auto& value : list) {
        value = static_cast<float>(generator() % 2001) / 1000.0F - 1.0F;
    }
    return list;
}

std::unique_ptr<CpuCompute> cpu() {
    auto made = CpuCompute::make(1);
    EXPECT_TRUE(made);
    return std::move(*made);
}

// A model of two products with a norm between, whose results are written into some rows of a cache
// and read back from all of it, as a layer of a transformer does.
class Model {
public:
    explicit Model(std::unique_ptr<LocalCompute> compute)
        : compute_(compute.get())
        , cluster_({.ranks = 1, .group = &alone_, .compute = std::move(compute)}) {
        device_ = cluster_.devices().front();
        backend_.reset(ggml_backend_dev_init(device_, nullptr));
        weights_ = context();
        up_ = ggml_new_tensor_2d(weights_.get(), GGML_TYPE_Q8_0, width, inner);
        norm_ = ggml_new_tensor_1d(weights_.get(), GGML_TYPE_F32, inner);
        down_ = ggml_new_tensor_2d(weights_.get(), GGML_TYPE_F32, inner, width);
        weight_buffer_ = allocate(weights_);
        ggml_backend_buffer_set_usage(weight_buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }

    // What loading does: rehearsal, placement, weights.
    void load(bool norm = true) {
        cluster_.set_rehearsal(true);
        {
            auto const graph = make_graph();
            EXPECT_EQ(compute(graph), GGML_STATUS_SUCCESS);
        }
        cluster_.set_rehearsal(false);
        ASSERT_TRUE(cluster_.place_weights(0));
        land(up_, quantised(numbers(width * inner, 1)));
        if (norm) {
            land(norm_, as_vector(numbers(inner, 2)));
        }
        land(down_, as_vector(numbers(inner * width, 3)));
    }

    void give_norm() { set(norm_, as_vector(numbers(inner, 2))); }

    struct Graph {
        ggml_context_ptr nodes;
        ggml_backend_buffer_ptr buffer;
        ggml_cgraph* graph = nullptr;
        ggml_tensor* input = nullptr;
        ggml_tensor* rows = nullptr;
        ggml_tensor* cache = nullptr;
        ggml_tensor* result = nullptr;
    };

    Graph make_graph() {
        Graph made;
        made.nodes = context();
        auto* c = made.nodes.get();
        made.input = ggml_new_tensor_2d(c, GGML_TYPE_F32, width, tokens);
        made.rows = ggml_new_tensor_1d(c, GGML_TYPE_I64, tokens);
        made.cache = ggml_new_tensor_2d(c, GGML_TYPE_F32, inner, cache_rows);
        auto* hidden = ggml_mul_mat(c, up_, made.input);
        hidden = ggml_mul(c, ggml_rms_norm(c, hidden, 1e-5F), norm_);
        auto* written = ggml_set_rows(c, made.cache, hidden, made.rows);
        auto* some =
            ggml_view_2d(c, written, inner, cache_rows - 1, written->nb[1], written->nb[1]);
        made.result = ggml_mul_mat(c, down_, ggml_soft_max(c, ggml_cumsum(c, ggml_cont(c, some))));
        made.graph = ggml_new_graph(c);
        ggml_build_forward_expand(made.graph, made.result);
        made.buffer = allocate(made.nodes);
        made.graph->uid = ggml_graph_next_uid();
        return made;
    }

    ggml_status compute(Graph const& graph) {
        return ggml_backend_graph_compute(backend_.get(), graph.graph);
    }

    void give(Graph const& graph) {
        set(graph.input, as_vector(numbers(width * tokens, 4)));
        set(graph.cache, as_vector(numbers(inner * cache_rows, 5)));
        std::vector<std::int64_t> const rows{6, 0, 3};
        ggml_backend_tensor_set(graph.rows, rows.data(), 0, rows.size() * sizeof rows[0]);
    }

    std::vector<float> run(Graph const& graph) {
        give(graph);
        EXPECT_EQ(compute(graph), GGML_STATUS_SUCCESS);
        EXPECT_TRUE(cluster_.health());
        return get(graph.result);
    }

    std::vector<float> run() {
        auto const graph = make_graph();
        return run(graph);
    }

    static std::vector<float> get(ggml_tensor const* tensor) {
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
        ggml_backend_tensor_get(tensor, values.data(), 0, ggml_nbytes(tensor));
        return values;
    }

    static void set(ggml_tensor* tensor, std::vector<std::uint8_t> const& bytes) {
        ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    }

    static std::vector<std::uint8_t> as_vector(std::vector<float> const& values) {
        auto const* bytes = reinterpret_cast<std::uint8_t const*>(values.data());
        return {bytes, bytes + values.size() * sizeof(float)};
    }

    [[nodiscard]] ggml_tensor* up() const { return up_; }

    [[nodiscard]] std::string describe() const { return compute_->describe(); }

    [[nodiscard]] LocalCompute& compute() { return *compute_; }

    // Of a weight's whole pages.
    [[nodiscard]] static std::size_t resident_pages(ggml_tensor const* tensor) {
        auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
        auto const begin =
            (reinterpret_cast<std::uintptr_t>(tensor->data) + page - 1) / page * page;
        auto const end =
            (reinterpret_cast<std::uintptr_t>(tensor->data) + ggml_nbytes(tensor)) / page * page;
        std::vector<unsigned char> resident((end - begin) / page);
        EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), end - begin, resident.data()), 0);
        return static_cast<std::size_t>(std::ranges::count_if(resident, [](auto state) {
            return (state & 1) != 0;
        }));
    }

private:
    static ggml_context_ptr context() {
        return ggml_context_ptr(
            ggml_init({.mem_size = 1u << 20, .mem_buffer = nullptr, .no_alloc = true})
        );
    }

    ggml_backend_buffer_ptr allocate(ggml_context_ptr const& tensors) {
        return ggml_backend_buffer_ptr(ggml_backend_alloc_ctx_tensors_from_buft(
            tensors.get(), ggml_backend_dev_buffer_type(device_)
        ));
    }

    static std::vector<std::uint8_t> quantised(std::vector<float> const& values) {
        std::vector<std::uint8_t> bytes(ggml_row_size(GGML_TYPE_Q8_0, width) * inner);
        ggml_quantize_chunk(GGML_TYPE_Q8_0, values.data(), bytes.data(), 0, inner, width, nullptr);
        return bytes;
    }

    // As the readers do: bytes into the pages, in two parts, then a word of it.
    void land(ggml_tensor* weight, std::vector<std::uint8_t> const& bytes) {
        auto const half = bytes.size() / 2;
        for (auto const& [at, count] :
             {std::pair(std::size_t{0}, half), {half, bytes.size() - half}}) {
            auto* to = static_cast<std::uint8_t*>(weight->data) + at;
            std::memcpy(to, bytes.data() + at, count);
            EXPECT_TRUE(compute_->landed({.to = to, .bytes = count}));
        }
    }

    collective::LocalGroup alone_;
    LocalCompute* compute_;
    Cluster cluster_;
    ggml_backend_dev_t device_ = nullptr;
    ggml_backend_ptr backend_;
    ggml_context_ptr weights_;
    ggml_tensor* up_ = nullptr;
    ggml_tensor* norm_ = nullptr;
    ggml_tensor* down_ = nullptr;
    ggml_backend_buffer_ptr weight_buffer_;
};

std::vector<float> cpu_result() {
    Model model(cpu());
    model.load();
    return model.run();
}

std::unique_ptr<GpuCompute> on(ForeignDevice& device) {
    auto made = GpuCompute::make(device.device(), cpu());
    EXPECT_TRUE(made);
    return std::move(*made);
}

void expect_close(std::vector<float> const& values, std::vector<float> const& expected) {
    ASSERT_EQ(values.size(), expected.size());
    EXPECT_LT(nmse(values, expected), 1e-6); // Packed weights are summed in another order.
}

// Without views: product, norm, product with the norm's weight, set_rows, cont, cumulative sum,
// soft max, product.
constexpr std::size_t nodes_of_model = 8;

TEST(GpuCompute, a_gpu_with_every_operation_computes_all_in_one_graph) {
    ForeignDevice device({});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model);
    EXPECT_EQ(device.counts.graphs, 1u);
    // The result was asked for, and nothing else.
    EXPECT_EQ(device.counts.downloaded_bytes, sizeof(float) * width * (cache_rows - 1));
}

TEST(GpuCompute, what_a_gpu_cannot_do_the_cpu_does_in_between) {
    for (auto const op : {GGML_OP_RMS_NORM, GGML_OP_SET_ROWS, GGML_OP_SOFT_MAX, GGML_OP_CONT}) {
        ForeignDevice device({.supports = [op](auto const* node) { return node->op != op; }});
        Model model(on(device));
        model.load();
        expect_close(model.run(), cpu_result());
        EXPECT_EQ(device.counts.nodes, nodes_of_model - 1) << ggml_op_name(op);
        EXPECT_EQ(device.counts.graphs, 2u) << ggml_op_name(op);
    }
}

// set_rows writes three rows of the cache; on the CPU it must find and leave the others.
TEST(GpuCompute, the_cpu_changes_a_part_of_a_tensor_and_leaves_the_rest) {
    ForeignDevice device({.supports = [](auto const* node) { return node->op != GGML_OP_SET_ROWS; }}
    );
    Model model(on(device));
    model.load();
    auto const graph = model.make_graph();
    model.give(graph);
    // What is in the pages by now is not what the GPU has.
    std::memset(graph.cache->data, 0xee, ggml_nbytes(graph.cache));
    ASSERT_EQ(model.compute(graph), GGML_STATUS_SUCCESS);
    auto const cache = Model::get(graph.cache);
    auto const before = numbers(inner * cache_rows, 5);
    for (auto const row : {1u, 2u, 4u, 5u, 7u}) {
        for (std::size_t i = 0; i < inner; ++i) {
            ASSERT_EQ(cache[row * inner + i], before[row * inner + i]) << "row " << row;
        }
    }
    EXPECT_NE(cache[0], before[0]);
}

TEST(GpuCompute, between_nodes_of_the_cpu_nothing_is_fetched) {
    ForeignDevice device({.supports = [](auto const* node) {
        return node->op != GGML_OP_RMS_NORM && node->op != GGML_OP_MUL;
    }});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    auto const hidden = sizeof(float) * inner * tokens;
    auto const result = sizeof(float) * width * (cache_rows - 1);
    EXPECT_EQ(device.counts.downloaded_bytes, hidden + result);
}

// Support may depend on sizes that the rehearsal did not try.
TEST(GpuCompute, a_weight_on_the_gpu_that_the_cpu_needs_after_all_is_fetched) {
    bool multiplies = true;
    ForeignDevice device({.supports = [&multiplies](auto const* node) {
        return multiplies || node->op != GGML_OP_MUL_MAT;
    }});
    Model model(on(device));
    model.load();
    multiplies = false;
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model - 2);
    multiplies = true;
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model - 2 + nodes_of_model);
}

TEST(GpuCompute, a_weight_that_the_gpu_cannot_multiply_by_stays_in_host_memory) {
    ForeignDevice device({.supports = [](auto const* node) {
        return node->op != GGML_OP_MUL_MAT || node->src[0]->type != GGML_TYPE_Q8_0;
    }});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model - 1);
    // The other two are there.
    EXPECT_LT(
        device.counts.uploaded_bytes, ggml_nbytes(model.up()) + sizeof(float) * inner * width * 2
    );
    EXPECT_NE(model.describe().find("cannot compute with"), std::string::npos) << model.describe();
}

TEST(GpuCompute, weights_without_room_are_the_cpus) {
    // An eighth is reserved; the first weight fits in the rest, the big last one does not.
    auto const first = ggml_row_size(GGML_TYPE_Q8_0, width) * inner;
    ForeignDevice device({.memory_bytes = (first + (128u << 10)) * 8 / 7});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model - 1);
    EXPECT_NE(model.describe().find("no room"), std::string::npos) << model.describe();
}

TEST(GpuCompute, a_gpu_without_any_room_leaves_all_to_the_cpu) {
    ForeignDevice device({.memory_bytes = 4096});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, 0u);
}

TEST(GpuCompute, weights_lie_in_buffers_of_the_size_that_the_gpu_likes) {
    ForeignDevice device({.buffer_bytes_max = 300u << 10});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model);
}

TEST(GpuCompute, a_graph_that_is_met_again_is_not_planned_again) {
    ForeignDevice device({.supports = [](auto const* node) { return node->op != GGML_OP_RMS_NORM; }}
    );
    Model model(on(device));
    model.load();
    auto const graph = model.make_graph();
    auto const once = model.run(graph);
    auto const questions = device.counts.questions;
    EXPECT_EQ(model.run(graph), once);
    EXPECT_EQ(device.counts.questions, questions);
    graph.graph->uid = ggml_graph_next_uid(); // Another graph, for all that one knows.
    EXPECT_EQ(model.run(graph), once);
    EXPECT_GT(device.counts.questions, questions);
}

TEST(GpuCompute, plans_end_with_the_memory_that_they_point_to) {
    ForeignDevice device({});
    auto compute = on(device);
    auto const& gpu = *compute;
    Model model(std::move(compute));
    model.load();
    auto const in_use = device.bytes_in_use();
    {
        auto const graph = model.make_graph();
        (void)model.run(graph);
        EXPECT_EQ(gpu.plans(), 1u);
        EXPECT_GT(device.bytes_in_use(), in_use);
    }
    EXPECT_EQ(gpu.plans(), 0u);
    EXPECT_EQ(device.bytes_in_use(), in_use);
}

TEST(GpuCompute, a_kernel_that_works_behind_its_result_gets_memory_for_it) {
    ForeignDevice device({.hungry_op = GGML_OP_CUMSUM, .hunger_bytes = 10000});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model + 1) << "its result is copied to its place";
}

TEST(GpuCompute, without_memory_for_it_that_operation_is_the_cpus) {
    ForeignDevice device({.hungry_op = GGML_OP_CUMSUM, .hunger_bytes = std::size_t{2} << 30});
    Model model(on(device));
    model.load();
    expect_close(model.run(), cpu_result());
    EXPECT_EQ(device.counts.nodes, nodes_of_model - 1);
}

TEST(GpuCompute, loading_leaves_no_weight_in_host_memory) {
    ForeignDevice device({});
    Model model(on(device));
    model.load();
    EXPECT_LE(Model::resident_pages(model.up()), 1u); // Where two parts met.
    EXPECT_EQ(Model::get(model.up()).size(), static_cast<std::size_t>(width * inner));
}

// As llama.cpp does with biases that it divides by the number of ranks.
TEST(GpuCompute, values_given_before_the_weights_were_placed_arrive_there) {
    ForeignDevice device({});
    Model model(on(device));
    model.give_norm();
    model.load(/*norm=*/false);
    expect_close(model.run(), cpu_result());
}

// Devices are registered for good: one test tells the story.
TEST(LocalCompute, a_device_is_chosen_by_name_or_as_the_best) {
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != nullptr) {
        GTEST_SKIP() << "this machine has a GPU, which is better than what is registered here";
    }
    auto const chosen = [](char const* device) {
        auto made = make_local_compute({.device = device});
        return made ? (*made)->describe() : made.error().text();
    };
    EXPECT_EQ(chosen("auto"), "the CPU");
    EXPECT_EQ(chosen("cpu"), "the CPU");
    EXPECT_EQ(chosen("big"), "no device 'big' on this machine; there is: auto, cpu");
    ForeignDevice broken({.name = "broken", .starts = false});
    broken.register_for_process();
    EXPECT_EQ(chosen("auto"), "the CPU");
    EXPECT_EQ(chosen("broken"), "broken does not start");
    ForeignDevice small({.name = "small", .memory_bytes = std::size_t{2} << 30});
    ForeignDevice big({.name = "big", .memory_bytes = std::size_t{3} << 30});
    big.register_for_process();
    small.register_for_process();
    EXPECT_TRUE(chosen("auto").starts_with("big (test device)")) << chosen("auto");
    EXPECT_TRUE(chosen("small").starts_with("small ")) << chosen("small");
    EXPECT_EQ(chosen("cpu"), "the CPU");
    EXPECT_EQ(
        chosen("none"), "no device 'none' on this machine; there is: auto, cpu, broken, big, small"
    );
}

} // namespace
} // namespace exo::engine
