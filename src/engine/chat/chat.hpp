// SPDX-License-Identifier: Apache-2.0
//
// A conversation as the model was trained to read it: its own chat template, rendered by
// llama.cpp's template engine, and its tokenizer.
#pragma once

#include "base/result.hpp"
#include "model/generation.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct llama_model;
struct common_chat_templates;

namespace exo::engine {

struct Prompt {
    std::vector<std::int32_t> tokens;
    std::vector<std::string> stops; // That the template asks for, besides the end-of-turn tokens.
};

class Chat {
public:
    // `model` must outlive the object. Error: unsupported, when the model's template is broken.
    [[nodiscard]] static Result<std::unique_ptr<Chat>> make(llama_model const* model);
    ~Chat();

    // Errors: invalid_argument, when the template refuses the conversation; the text says why.
    [[nodiscard]] Result<Prompt> render(std::vector<model::ChatMessage> const& messages) const;

    // The bytes of a token; nothing for control tokens.
    [[nodiscard]] std::string piece(std::int32_t token) const;

    // True for all tokens that end an answer (end of sequence, of turn, of message).
    [[nodiscard]] bool ends_answer(std::int32_t token) const;

private:
    explicit Chat(llama_model const* model);

    [[nodiscard]] std::vector<std::int32_t> tokenize(std::string const& text) const;

    llama_model const* model_;

    struct TemplatesDeleter {
        void operator()(common_chat_templates* templates) const;
    };

    std::unique_ptr<common_chat_templates, TemplatesDeleter> templates_;
};

} // namespace exo::engine
