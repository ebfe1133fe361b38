// SPDX-License-Identifier: Apache-2.0
//
// ggml's view of a Cluster: tables of functions that find their object in the context pointers, so
// that nothing here is global.
#include "engine/cluster_device/cluster.hpp"
#include "engine/cluster_device/tensor_layout.hpp"

#include <string_view>

namespace exo::engine {
namespace {

// What a device says of its memory. llama.cpp would cut by it, but always has explicit shares.
constexpr std::size_t memory_bytes_claimed = std::size_t{1} << 40;

ClusterDevice& device_of(ggml_backend_dev_t device) {
    return *static_cast<ClusterDevice*>(device->context);
}

ClusterDevice& device_of(ggml_backend_buffer_type_t type) {
    return *static_cast<ClusterDevice*>(type->context);
}

ClusterDevice& device_of(ggml_backend_t backend) {
    return device_of(backend->device);
}

ClusterBuffer& buffer_of(ggml_backend_buffer_t buffer) {
    return *static_cast<ClusterBuffer*>(buffer->context);
}

// ---- buffers

void buffer_free(ggml_backend_buffer_t buffer) {
    auto& own = buffer_of(buffer);
    own.device->cluster->release(&own);
}

void* buffer_base(ggml_backend_buffer_t buffer) {
    return buffer_of(buffer).base;
}

void buffer_memset(
    ggml_backend_buffer_t buffer,
    ggml_tensor* tensor,
    std::uint8_t value,
    std::size_t offset,
    std::size_t bytes
) {
    auto& device = *buffer_of(buffer).device;
    device.cluster->fill(device, tensor, value, offset, bytes);
}

void buffer_set_2d(
    ggml_backend_buffer_t buffer,
    ggml_tensor* tensor,
    void const* data,
    std::size_t offset,
    std::size_t bytes,
    std::size_t count,
    std::size_t tensor_stride,
    std::size_t data_stride
) {
    auto& device = *buffer_of(buffer).device;
    device.cluster->set(device, tensor, data, {offset, bytes, count, tensor_stride, data_stride});
}

void buffer_set(
    ggml_backend_buffer_t buffer,
    ggml_tensor* tensor,
    void const* data,
    std::size_t offset,
    std::size_t bytes
) {
    buffer_set_2d(buffer, tensor, data, offset, bytes, 1, 0, 0);
}

void buffer_get_2d(
    ggml_backend_buffer_t buffer,
    ggml_tensor const* tensor,
    void* data,
    std::size_t offset,
    std::size_t bytes,
    std::size_t count,
    std::size_t tensor_stride,
    std::size_t data_stride
) {
    auto& device = *buffer_of(buffer).device;
    device.cluster->get(device, tensor, data, {offset, bytes, count, tensor_stride, data_stride});
}

void buffer_get(
    ggml_backend_buffer_t buffer,
    ggml_tensor const* tensor,
    void* data,
    std::size_t offset,
    std::size_t bytes
) {
    buffer_get_2d(buffer, tensor, data, offset, bytes, 1, 0, 0);
}

bool buffer_copy(ggml_backend_buffer_t buffer, ggml_tensor const* source, ggml_tensor* target) {
    auto* const from = source->buffer != nullptr ? cluster_device(source->buffer->buft) : nullptr;
    auto* const to = buffer_of(buffer).device;
    if (from == nullptr || from->cluster != to->cluster) {
        return false;
    }
    to->cluster->copy(*from, *to, source, target);
    return true;
}

void buffer_clear(ggml_backend_buffer_t buffer, std::uint8_t value) {
    auto& own = buffer_of(buffer);
    own.device->cluster->clear(own, value);
}

constexpr ggml_backend_buffer_i buffer_interface{
    .free_buffer = buffer_free,
    .get_base = buffer_base,
    .init_tensor = nullptr,
    .memset_tensor = buffer_memset,
    .set_tensor = buffer_set,
    .get_tensor = buffer_get,
    .set_tensor_2d = buffer_set_2d,
    .get_tensor_2d = buffer_get_2d,
    .cpy_tensor = buffer_copy,
    .clear = buffer_clear,
    .reset = nullptr,
};

// ---- buffer types

char const* type_name(ggml_backend_buffer_type_t type) {
    return device_of(type).name.c_str();
}

ggml_backend_buffer_t type_allocate(ggml_backend_buffer_type_t type, std::size_t bytes) {
    auto& device = device_of(type);
    return device.cluster->allocate(device, bytes, buffer_interface);
}

std::size_t type_alignment(ggml_backend_buffer_type_t /*type*/) {
    return device_alignment_bytes;
}

std::size_t type_alloc_bytes(ggml_backend_buffer_type_t /*type*/, ggml_tensor const* tensor) {
    return device_alloc_bytes(tensor);
}

bool type_is_host(ggml_backend_buffer_type_t /*type*/) {
    return false;
}

// ---- backends: the stream of work on a device

char const* backend_name(ggml_backend_t backend) {
    return device_of(backend).name.c_str();
}

void backend_free(ggml_backend_t backend) {
    delete backend;
}

void backend_set_2d(
    ggml_backend_t backend,
    ggml_tensor* tensor,
    void const* data,
    std::size_t offset,
    std::size_t bytes,
    std::size_t count,
    std::size_t tensor_stride,
    std::size_t data_stride
) {
    auto& device = device_of(backend);
    device.cluster->set(device, tensor, data, {offset, bytes, count, tensor_stride, data_stride});
}

void backend_set(
    ggml_backend_t backend,
    ggml_tensor* tensor,
    void const* data,
    std::size_t offset,
    std::size_t bytes
) {
    backend_set_2d(backend, tensor, data, offset, bytes, 1, 0, 0);
}

void backend_get_2d(
    ggml_backend_t backend,
    ggml_tensor const* tensor,
    void* data,
    std::size_t offset,
    std::size_t bytes,
    std::size_t count,
    std::size_t tensor_stride,
    std::size_t data_stride
) {
    auto& device = device_of(backend);
    device.cluster->get(device, tensor, data, {offset, bytes, count, tensor_stride, data_stride});
}

void backend_get(
    ggml_backend_t backend,
    ggml_tensor const* tensor,
    void* data,
    std::size_t offset,
    std::size_t bytes
) {
    backend_get_2d(backend, tensor, data, offset, bytes, 1, 0, 0);
}

bool backend_copy(
    ggml_backend_t from, ggml_backend_t to, ggml_tensor const* source, ggml_tensor* target
) {
    if (from->iface.get_name != backend_name || to->iface.get_name != backend_name) {
        return false;
    }
    auto& device = device_of(from);
    device.cluster->copy(device, device_of(to), source, target);
    return true;
}

ggml_status backend_compute(ggml_backend_t backend, ggml_cgraph* graph) {
    auto& device = device_of(backend);
    return device.cluster->compute_graph(device, graph);
}

constexpr ggml_backend_i backend_interface{
    .get_name = backend_name,
    .free = backend_free,
    .set_tensor_async = backend_set,
    .get_tensor_async = backend_get,
    .set_tensor_2d_async = backend_set_2d,
    .get_tensor_2d_async = backend_get_2d,
    .cpy_tensor_async = backend_copy,
    .synchronize = nullptr,
    .graph_plan_create = nullptr,
    .graph_plan_free = nullptr,
    .graph_plan_update = nullptr,
    .graph_plan_compute = nullptr,
    .graph_compute = backend_compute,
    .event_record = nullptr,
    .event_wait = nullptr,
    .graph_optimize = nullptr,
};

// ---- devices

char const* device_name(ggml_backend_dev_t device) {
    return device_of(device).name.c_str();
}

void device_memory(ggml_backend_dev_t /*device*/, std::size_t* free, std::size_t* total) {
    *free = *total = memory_bytes_claimed;
}

enum ggml_backend_dev_type device_type(ggml_backend_dev_t /*device*/) {
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

void device_properties(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
    *properties = {};
    properties->name = properties->description = device_name(device);
    properties->type = device_type(device);
    device_memory(device, &properties->memory_free, &properties->memory_total);
}

ggml_backend_t device_start(ggml_backend_dev_t device, char const* /*parameters*/) {
    static ggml_guid id = {'e', 'x', 'o', ' ', 'c', 'l', 'u', 's', 't', 'e', 'r'};
    return new ggml_backend{&id, backend_interface, device, nullptr};
}

ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device) {
    return &device_of(device).buffer_type;
}

bool device_supports(ggml_backend_dev_t /*device*/, ggml_tensor const* /*node*/) {
    return true;
}

bool device_supports_type(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
    return type == &device_of(device).buffer_type;
}

constexpr ggml_backend_device_i device_interface{
    .get_name = device_name,
    .get_description = device_name,
    .get_memory = device_memory,
    .get_type = device_type,
    .get_props = device_properties,
    .init_backend = device_start,
    .get_buffer_type = device_buffer_type,
    .get_host_buffer_type = nullptr,
    .buffer_from_host_ptr = nullptr,
    .supports_op = device_supports,
    .supports_buft = device_supports_type,
    .offload_op = nullptr,
    .event_new = nullptr,
    .event_free = nullptr,
    .event_synchronize = nullptr,
};

// ---- the registry: where ggml's meta device looks for collective operations, by name

char const* registry_name(ggml_backend_reg_t /*registry*/) {
    return "cluster";
}

std::size_t registry_count(ggml_backend_reg_t registry) {
    return static_cast<Cluster*>(registry->context)->device_count();
}

ggml_backend_dev_t registry_device(ggml_backend_reg_t registry, std::size_t index) {
    return static_cast<Cluster*>(registry->context)->device_at(index);
}

void* comm_init(ggml_backend_t* backends, std::size_t count) {
    return count > 0 ? device_of(backends[0]).cluster : nullptr;
}

void comm_free(void* /*cluster*/) {}

bool comm_all_reduce(void* cluster, ggml_tensor** parts) {
    return static_cast<Cluster*>(cluster)->all_reduce(parts);
}

void* registry_function(ggml_backend_reg_t /*registry*/, char const* name) {
    std::string_view const wanted(name);
    if (wanted == "ggml_backend_comm_init") {
        return reinterpret_cast<void*>(comm_init);
    }
    if (wanted == "ggml_backend_comm_free") {
        return reinterpret_cast<void*>(comm_free);
    }
    if (wanted == "ggml_backend_comm_allreduce_tensor") {
        return reinterpret_cast<void*>(comm_all_reduce);
    }
    return nullptr;
}

} // namespace

void bind_hooks(ClusterDevice& device, ggml_backend_reg& registry) {
    device.device = {.iface = device_interface, .reg = &registry, .context = &device};
    device.buffer_type = {
        .iface =
            {.get_name = type_name,
             .alloc_buffer = type_allocate,
             .get_alignment = type_alignment,
             .get_max_size = nullptr,
             .get_alloc_size = type_alloc_bytes,
             .is_host = type_is_host},
        .device = &device.device,
        .context = &device,
    };
}

void bind_hooks(ggml_backend_reg& registry, Cluster& cluster) {
    registry = {
        .api_version = GGML_BACKEND_API_VERSION,
        .iface =
            {.get_name = registry_name,
             .get_device_count = registry_count,
             .get_device = registry_device,
             .get_proc_address = registry_function},
        .context = &cluster,
    };
}

ClusterDevice* cluster_device(ggml_backend_buffer_type_t type) {
    return type->iface.get_name == type_name ? &device_of(type) : nullptr;
}

} // namespace exo::engine
