// SPDX-License-Identifier: Apache-2.0
#include "engine/chat/chat.hpp"

#include <llama.h>

#include <chat.h> // Of llama-common.

namespace exo::engine {
namespace {

// Templates know one system message, at the front; what APIs send is system and developer messages
// anywhere.
std::vector<common_chat_msg> template_messages(std::vector<model::ChatMessage> const& messages) {
    common_chat_msg system;
    std::vector<common_chat_msg> result;
    for (auto const& message : messages) {
        if (message.role == "system" || message.role == "developer") {
            system.content += (system.content.empty() ? "" : "\n") + message.content;
            continue;
        }
        common_chat_msg converted;
        converted.role = message.role;
        converted.content = message.content;
        if (message.role == "tool" && message.name) {
            converted.tool_name = *message.name;
        }
        result.push_back(std::move(converted));
    }
    if (!system.content.empty()) {
        system.role = "system";
        result.insert(result.begin(), std::move(system));
    }
    return result;
}

} // namespace

void Chat::TemplatesDeleter::operator()(common_chat_templates* templates) const {
    common_chat_templates_free(templates);
}

Chat::Chat(llama_model const* model)
    : model_(model) {}

Chat::~Chat() = default;

Result<std::unique_ptr<Chat>> Chat::make(llama_model const* model) {
    std::unique_ptr<Chat> made(new Chat(model));
    try {
        made->templates_.reset(common_chat_templates_init(model, "").release());
    } catch (std::exception const& error) {
        return Error(
            Errc::unsupported, std::string("the model's chat template is broken: ") + error.what()
        );
    }
    return made;
}

Result<Prompt> Chat::render(std::vector<model::ChatMessage> const& messages) const {
    common_chat_templates_inputs inputs;
    inputs.messages = template_messages(messages);
    // An answer that was begun is continued: its text stands after the prompt for the answer.
    std::string begun;
    if (!inputs.messages.empty() && inputs.messages.back().role == "assistant") {
        begun = inputs.messages.back().content;
        inputs.messages.pop_back();
    }
    try {
        auto const rendered = common_chat_templates_apply(templates_.get(), inputs);
        return Prompt{tokenize(rendered.prompt + begun), rendered.additional_stops};
    } catch (std::exception const& error) {
        return Error(
            Errc::invalid_argument,
            std::string("the model's chat template refuses these messages: ") + error.what()
        );
    }
}

std::vector<std::int32_t> Chat::tokenize(std::string const& text) const {
    auto const* vocabulary = llama_model_get_vocab(model_);
    auto const bytes = static_cast<std::int32_t>(text.size());
    // Special tokens in the text are the template's; those that begin a text come on top.
    auto const count = -llama_tokenize(
        vocabulary, text.data(), bytes, nullptr, 0, /*add_special=*/true, /*parse_special=*/true
    );
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::max(0, count)));
    llama_tokenize(
        vocabulary,
        text.data(),
        bytes,
        tokens.data(),
        count,
        /*add_special=*/true,
        /*parse_special=*/true
    );
    return tokens;
}

std::string Chat::piece(std::int32_t token) const {
    auto const* vocabulary = llama_model_get_vocab(model_);
    std::string bytes(32, '\0');
    auto count = llama_token_to_piece(
        vocabulary, token, bytes.data(), static_cast<std::int32_t>(bytes.size()), 0, false
    );
    if (count < 0) { // Longer than usual: it says how long.
        bytes.resize(static_cast<std::size_t>(-count));
        count = llama_token_to_piece(vocabulary, token, bytes.data(), -count, 0, false);
    }
    bytes.resize(static_cast<std::size_t>(std::max(0, count)));
    return bytes;
}

bool Chat::ends_answer(std::int32_t token) const {
    return llama_vocab_is_eog(llama_model_get_vocab(model_), token);
}

} // namespace exo::engine
