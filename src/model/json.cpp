// SPDX-License-Identifier: Apache-2.0
//
// Parsing with limits, and the parts of the codec that depend on no type.
#include "model/json.hpp"

#include "model/json_codec.hpp"

#include <nlohmann/json.hpp>

#include <limits>

namespace exo::model {
namespace {

using nlohmann::json;

// Builds a document from parser events. The library's own builder has no limits, and its
// MessagePack parser recurses: an answer of false ends the parse before the stack or the memory
// does.
class Builder : public nlohmann::json_sax<json> {
public:
    bool null() override { return add(json()) != nullptr; }

    bool boolean(bool value) override { return add(json(value)) != nullptr; }

    bool number_integer(number_integer_t value) override { return add(json(value)) != nullptr; }

    bool number_unsigned(number_unsigned_t value) override { return add(json(value)) != nullptr; }

    bool number_float(number_float_t value, string_t const&) override {
        return add(json(value)) != nullptr;
    }

    bool string(string_t& value) override { return add(json(std::move(value))) != nullptr; }

    bool binary(binary_t& value) override { return add(json(std::move(value))) != nullptr; }

    bool start_object(std::size_t) override { return open(json::object()); }

    bool key(string_t& value) override {
        key_ = std::move(value);
        return true;
    }

    bool end_object() override { return close(); }

    bool start_array(std::size_t) override { return open(json::array()); }

    bool end_array() override { return close(); }

    bool parse_error(
        std::size_t position, std::string const&, nlohmann::detail::exception const& error
    ) override {
        error_.emplace(
            Errc::invalid_argument,
            "not a valid document at byte " + std::to_string(position) + ": " + without_id(error)
        );
        return false;
    }

    [[nodiscard]] Result<json> take(bool complete) {
        if (error_) {
            return *error_;
        }
        if (!complete) {
            return Error(Errc::invalid_argument, "not a valid document");
        }
        // A json converts to anything: say which of the two alternatives it is.
        return Result<json>(boost::system::in_place_value, std::move(root_));
    }

private:
    // "[json.exception.parse_error.101] parse error at ..." is for programmers.
    static std::string without_id(nlohmann::detail::exception const& error) {
        std::string_view text = error.what();
        auto const end = text.find("] ");
        return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
    }

    json* add(json value) {
        if (++values_ > document_values_max) {
            error_.emplace(
                Errc::limit,
                "more than " + std::to_string(document_values_max) + " values in one document"
            );
            return nullptr;
        }
        if (open_.empty()) {
            root_ = std::move(value);
            return &root_;
        }
        json& parent = *open_.back();
        if (parent.is_array()) {
            parent.push_back(std::move(value));
            return &parent.back();
        }
        json& place = parent[key_]; // The last of equal keys wins, as everywhere.
        place = std::move(value);
        return &place;
    }

    bool open(json container) {
        if (open_.size() >= document_depth_max) {
            error_.emplace(
                Errc::limit, "nested deeper than " + std::to_string(document_depth_max) + " levels"
            );
            return false;
        }
        json* const place = add(std::move(container));
        if (place != nullptr) {
            open_.push_back(place);
        }
        return place != nullptr;
    }

    bool close() {
        open_.pop_back();
        return true;
    }

    json root_;
    std::vector<json*> open_; // Stable: a container's parent does not grow while it is open.
    std::string key_;
    std::size_t values_ = 0;
    std::optional<Error> error_;
};

Result<json> parse(BytesView bytes, json::input_format_t format) {
    if (bytes.size() > document_bytes_max) {
        return Error(
            Errc::limit,
            "a document of " + format_size(bytes.size()) + " is longer than " +
                format_size(document_bytes_max)
        );
    }
    Builder builder;
    bool const complete = json::sax_parse(bytes.begin(), bytes.end(), &builder, format);
    return builder.take(complete);
}

} // namespace

Result<json> parse_json(std::string_view text) {
    return parse(as_bytes(text), json::input_format_t::json);
}

Result<json> parse_msgpack(BytesView bytes) {
    return parse(bytes, json::input_format_t::msgpack);
}

std::string to_text(json const& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

namespace codec {

bool Failure::set(std::string what) {
    text = std::move(what);
    return false;
}

bool Failure::inside(std::string_view field) {
    path = std::string(field) + (path.empty() || path.front() == '[' ? "" : ".") + path;
    return false;
}

bool Failure::inside(std::size_t index) {
    bool const plain = path.empty() || path.front() == '[';
    path = "[" + std::to_string(index) + "]" + (plain ? "" : ".") + path;
    return false;
}

Error Failure::error() const {
    // Path and text have parts from outside: names of any length and content.
    constexpr std::size_t shown_bytes_max = 200;
    std::string const where(utf8_prefix(clean_utf8(path), shown_bytes_max));
    std::string const what(utf8_prefix(clean_utf8(text), shown_bytes_max));
    return {code, where.empty() ? what : where + ": " + what};
}

std::string camel_case(std::string_view snake) {
    std::string camel;
    bool upper = false;
    for (char const c : snake) {
        if (c == '_') {
            upper = true;
        } else {
            camel += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
            upper = false;
        }
    }
    return camel;
}

std::string pascal_case(std::string_view snake) {
    return camel_case("_" + std::string(snake));
}

std::string clean_utf8(std::string_view text) {
    if (is_utf8(text)) {
        return std::string(text);
    }
    constexpr std::string_view replacement = "\xef\xbf\xbd";
    std::string clean;
    while (!text.empty()) {
        // Characters have 1 to 4 bytes; the shortest valid prefix is the next one.
        std::size_t size = 1;
        while (size <= 4 && size <= text.size() && !is_utf8(text.substr(0, size))) {
            ++size;
        }
        bool const good = size <= 4 && size <= text.size();
        clean += good ? text.substr(0, size) : replacement;
        text.remove_prefix(good ? size : 1);
    }
    return clean;
}

Json bytes_value(Bytes const& bytes, Style style) {
    return style.binary ? Json::binary(bytes) : Json(to_hex(bytes));
}

bool read_bool(Json const& in, bool& out, Failure& failure) {
    if (!in.is_boolean()) {
        return failure.set("true or false expected");
    }
    out = in.get<bool>();
    return true;
}

bool read_text(Json const& in, std::string& out, Failure& failure) {
    if (!in.is_string()) {
        return failure.set("text expected");
    }
    out = in.get_ref<std::string const&>();
    return is_utf8(out) || failure.set("is not valid UTF-8");
}

bool read_bytes(Json const& in, Bytes& out, Failure& failure) {
    if (in.is_binary()) {
        out = in.get_binary();
        return true;
    }
    if (!in.is_string()) {
        return failure.set("bytes expected");
    }
    Result<Bytes> bytes = from_hex(in.get_ref<std::string const&>());
    if (!bytes) {
        return failure.set(bytes.error().text());
    }
    out = std::move(*bytes);
    return true;
}

bool read_double(Json const& in, double& out, Failure& failure) {
    if (!in.is_number()) {
        return failure.set("a number expected");
    }
    out = in.get<double>();
    return std::isfinite(out) || failure.set("a finite number expected");
}

bool read_unsigned(Json const& in, std::uint64_t max, std::uint64_t& out, Failure& failure) {
    bool const whole =
        in.is_number_unsigned() || (in.is_number_integer() && in.get<std::int64_t>() >= 0);
    out = whole ? in.get<std::uint64_t>() : 0;
    if (!whole || out > max) {
        out = 0;
        return failure.set("a whole number from 0 to " + std::to_string(max) + " expected");
    }
    return true;
}

bool read_signed(
    Json const& in, std::int64_t min, std::int64_t max, std::int64_t& out, Failure& failure
) {
    constexpr std::uint64_t representable = std::numeric_limits<std::int64_t>::max();
    bool const whole =
        in.is_number_unsigned() ? in.get<std::uint64_t>() <= representable : in.is_number_integer();
    out = whole ? in.get<std::int64_t>() : 0;
    if (!whole || out < min || out > max) {
        out = 0;
        return failure.set(
            "a whole number from " + std::to_string(min) + " to " + std::to_string(max) +
            " expected"
        );
    }
    return true;
}

bool expect_object(Json const& in, Failure& failure) {
    return in.is_object() || failure.set("an object expected");
}

bool expect_array(Json const& in, Failure& failure) {
    return in.is_array() || failure.set("a list expected");
}

Json const* find_member(Json const& object, std::string_view snake) {
    auto found = object.find(snake);
    if (found == object.end()) {
        found = object.find(camel_case(snake));
    }
    return found == object.end() ? nullptr : &*found;
}

Bytes msgpack_of(Json const& json) {
    return Json::to_msgpack(json);
}

} // namespace codec
} // namespace exo::model
