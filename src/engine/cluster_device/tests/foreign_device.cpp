// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/tests/foreign_device.hpp"

#include "base/assert.hpp"

#include <ggml-impl.h>

#include <array>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace exo::engine {

namespace {

constexpr std::size_t alignment_bytes = 32; // Less than ours: it takes what it gets.

std::size_t whole_pages(std::size_t bytes) {
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

std::uint8_t* map(std::size_t bytes, int access) {
    auto* at =
        mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
    EXO_ASSERT(at != MAP_FAILED);
    return static_cast<std::uint8_t*>(at);
}

} // namespace

// ggml's tables of functions; each finds its object in the context pointers.
struct ForeignHooks {
    using Buffer = ForeignDevice::Buffer;

    static ForeignDevice& of(ggml_backend_dev_t device) {
        return *static_cast<ForeignDevice*>(device->context);
    }

    static ForeignDevice& of(ggml_backend_buffer_type_t type) { return of(type->device); }

    static Buffer& of(ggml_backend_buffer_t buffer) {
        return *static_cast<Buffer*>(buffer->context);
    }

    // ---- buffers

    static void* base(ggml_backend_buffer_t buffer) { return of(buffer).addresses; }

    static void free_buffer(ggml_backend_buffer_t buffer) {
        auto const& own = waited_for(buffer);
        --own.device->buffers_;
        own.device->bytes_in_use_ -= own.bytes;
        munmap(own.addresses, own.bytes);
        munmap(own.storage, own.bytes);
        delete &own;
    }

    static Buffer& waited_for(ggml_backend_buffer_t buffer) {
        EXO_ASSERT(of(buffer).device->pending_.empty());
        return of(buffer);
    }

    // Where the bytes of a tensor really are.
    static std::uint8_t* storage(ggml_tensor const* tensor, std::size_t offset, std::size_t bytes) {
        auto const* owner = tensor->view_src != nullptr ? tensor->view_src : tensor;
        auto const& own = of(owner->buffer);
        auto const* at = static_cast<std::uint8_t const*>(tensor->data) + offset;
        EXO_ASSERT(at >= own.addresses && at + bytes <= own.addresses + own.bytes);
        return own.storage + (at - own.addresses);
    }

    static void
    set(ggml_backend_buffer_t buffer,
        ggml_tensor* tensor,
        void const* data,
        std::size_t offset,
        std::size_t bytes) {
        std::memcpy(storage(tensor, offset, bytes), data, bytes);
        waited_for(buffer).device->counts.uploaded_bytes += bytes;
    }

    static void
    get(ggml_backend_buffer_t buffer,
        ggml_tensor const* tensor,
        void* data,
        std::size_t offset,
        std::size_t bytes) {
        std::memcpy(data, storage(tensor, offset, bytes), bytes);
        waited_for(buffer).device->counts.downloaded_bytes += bytes;
    }

    static void memset_tensor(
        ggml_backend_buffer_t /*buffer*/,
        ggml_tensor* tensor,
        std::uint8_t value,
        std::size_t offset,
        std::size_t bytes
    ) {
        std::memset(storage(tensor, offset, bytes), value, bytes);
    }

    static void clear(ggml_backend_buffer_t buffer, std::uint8_t value) {
        auto const& own = waited_for(buffer);
        std::memset(own.storage, value, own.bytes);
    }

    static char const* type_name(ggml_backend_buffer_type_t type) {
        return of(type).options_.name.c_str();
    }

    static ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, std::size_t bytes) {
        auto& device = of(type);
        auto const mapped = whole_pages(bytes);
        if (device.bytes_in_use_ + mapped > device.options_.memory_bytes) {
            return nullptr;
        }
        auto* own = new Buffer{
            &device, map(mapped, PROT_NONE), map(mapped, PROT_READ | PROT_WRITE), mapped
        };
        ++device.buffers_;
        device.bytes_in_use_ += mapped;
        static ggml_backend_buffer_i const interface{
            .free_buffer = free_buffer,
            .get_base = ForeignHooks::base,
            .memset_tensor = memset_tensor,
            .set_tensor = set,
            .get_tensor = get,
            .clear = clear,
        };
        return ggml_backend_buffer_init(type, interface, own, bytes);
    }

    static std::size_t alignment(ggml_backend_buffer_type_t /*type*/) { return alignment_bytes; }

    static std::size_t max_size(ggml_backend_buffer_type_t type) {
        return of(type).options_.buffer_bytes_max;
    }

    static std::size_t alloc_size(ggml_backend_buffer_type_t type, ggml_tensor const* tensor) {
        auto const& options = of(type).options_;
        bool const hungry = tensor->op == options.hungry_op && tensor->op != GGML_OP_NONE;
        return ggml_nbytes(tensor) + (hungry ? options.hunger_bytes : 0);
    }

    static bool is_host(ggml_backend_buffer_type_t /*type*/) { return false; }

    // ---- computing

    static char const* backend_name(ggml_backend_t backend) { return device_name(backend->device); }

    static void free_backend(ggml_backend_t backend) { delete backend; }

    static bool is_view(ggml_tensor const* node) {
        return node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW ||
               node->op == GGML_OP_RESHAPE || node->op == GGML_OP_PERMUTE ||
               node->op == GGML_OP_TRANSPOSE;
    }

    // A copy that says where the bytes really are.
    static ggml_tensor real(ForeignDevice& device, ggml_tensor const* tensor) {
        EXO_ASSERT(tensor->buffer != nullptr && tensor->buffer->buft == &device.type_);
        ggml_tensor copy = *tensor;
        copy.data = storage(tensor, 0, ggml_nbytes(tensor));
        return copy;
    }

    static ggml_status compute_later(ggml_backend_t backend, ggml_cgraph* graph) {
        of(backend->device).pending_.push_back(graph);
        return GGML_STATUS_SUCCESS;
    }

    static void synchronize(ggml_backend_t backend) {
        auto& device = of(backend->device);
        for (auto* graph : std::exchange(device.pending_, {})) {
            ++device.counts.graphs;
            for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
                if (auto const* node = ggml_graph_node(graph, i); !is_view(node)) {
                    compute(device, node);
                }
            }
        }
    }

    static void compute(ForeignDevice& device, ggml_tensor const* node) {
        EXO_ASSERT(!device.options_.supports || device.options_.supports(node));
        auto copy = real(device, node);
        std::array<ggml_tensor, GGML_MAX_SRC> sources;
        for (std::size_t i = 0; i < sources.size(); ++i) {
            if (node->src[i] != nullptr) {
                sources[i] = real(device, node->src[i]);
                copy.src[i] = &sources[i];
            }
        }
        ggml_tensor* nodes[] = {&copy};
        ggml_cgraph graph{};
        graph.n_nodes = 1;
        graph.nodes = nodes;
        auto const status = ggml_backend_graph_compute(device.cpu_.get(), &graph);
        EXO_ASSERT(status == GGML_STATUS_SUCCESS);
        ++device.counts.nodes;
        if (node->op == device.options_.hungry_op) {
            auto const bytes = device.options_.hunger_bytes;
            std::memset(storage(node, ggml_nbytes(node), bytes), 0xff, bytes);
        }
    }

    // ---- the device

    static char const* device_name(ggml_backend_dev_t device) {
        return of(device).options_.name.c_str();
    }

    static char const* description(ggml_backend_dev_t /*device*/) { return "test device"; }

    static void memory(ggml_backend_dev_t device, std::size_t* free, std::size_t* total) {
        *total = of(device).options_.memory_bytes;
        *free = *total - of(device).bytes_in_use_;
    }

    static enum ggml_backend_dev_type device_type(ggml_backend_dev_t /*device*/) {
        return GGML_BACKEND_DEVICE_TYPE_GPU;
    }

    static void properties(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
        *properties = {};
        properties->name = device_name(device);
        properties->description = description(device);
        properties->type = device_type(device);
        memory(device, &properties->memory_free, &properties->memory_total);
    }

    static ggml_backend_t start(ggml_backend_dev_t device, char const* /*parameters*/) {
        static ggml_guid id = {'f', 'o', 'r', 'e', 'i', 'g', 'n'};
        static ggml_backend_i const interface{
            .get_name = backend_name,
            .free = free_backend,
            .synchronize = synchronize,
            .graph_compute = compute_later,
        };
        return of(device).options_.starts ? new ggml_backend{&id, interface, device, nullptr}
                                          : nullptr;
    }

    static ggml_backend_buffer_type_t buffer_type(ggml_backend_dev_t device) {
        return &of(device).type_;
    }

    static bool supports(ggml_backend_dev_t device, ggml_tensor const* node) {
        auto& own = of(device);
        ++own.counts.questions;
        return !own.options_.supports || own.options_.supports(node);
    }

    static bool supports_type(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
        return type == &of(device).type_;
    }

    static char const* registry_name(ggml_backend_reg_t /*registry*/) { return "foreign"; }

    static std::size_t count(ggml_backend_reg_t /*registry*/) { return 1; }

    static ggml_backend_dev_t get_device(ggml_backend_reg_t registry, std::size_t /*index*/) {
        return static_cast<ForeignDevice*>(registry->context)->device();
    }
};

ForeignDevice::ForeignDevice(Options options)
    : options_(std::move(options))
    , cpu_(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr)) {
    auto* const cpu = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu_.get()));
    auto* const set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
        ggml_backend_reg_get_proc_address(cpu, "ggml_backend_set_n_threads")
    );
    set_threads(cpu_.get(), 1);
    registry_ = {
        .api_version = GGML_BACKEND_API_VERSION,
        .iface =
            {.get_name = ForeignHooks::registry_name,
             .get_device_count = ForeignHooks::count,
             .get_device = ForeignHooks::get_device},
        .context = this,
    };
    device_ = {
        .iface =
            {.get_name = ForeignHooks::device_name,
             .get_description = ForeignHooks::description,
             .get_memory = ForeignHooks::memory,
             .get_type = ForeignHooks::device_type,
             .get_props = ForeignHooks::properties,
             .init_backend = ForeignHooks::start,
             .get_buffer_type = ForeignHooks::buffer_type,
             .supports_op = ForeignHooks::supports,
             .supports_buft = ForeignHooks::supports_type},
        .reg = &registry_,
        .context = this,
    };
    type_ = {
        .iface =
            {.get_name = ForeignHooks::type_name,
             .alloc_buffer = ForeignHooks::allocate,
             .get_alignment = ForeignHooks::alignment,
             .get_max_size = ForeignHooks::max_size,
             .get_alloc_size = ForeignHooks::alloc_size,
             .is_host = ForeignHooks::is_host},
        .device = &device_,
        .context = this,
    };
}

ForeignDevice::~ForeignDevice() {
    EXO_ASSERT(buffers_ == 0);
}

} // namespace exo::engine
