"""Each rule of tools/tidy.py finds what it should, and leaves the neighbouring good form alone."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tidy

HEADER = "// SPDX-License-Identifier: Apache-2.0\n"
LAYERS = {"base": set(), "model": {"base"}, "net": {"base"}, "core": {"base", "model"},
          "engine": {"base"}, "node": {"base", "net"}}


def found(name, code, header=HEADER):
    return list(tidy.check_text(name, header + code, LAYERS))


class Layers(unittest.TestCase):
    def test_the_table_is_read_from_cmake(self):
        text = 'set(EXO_MAY_USE_base       "")\nset(EXO_MAY_USE_core base model)\n'
        self.assertEqual(tidy.read_layers(text), {"base": set(), "core": {"base", "model"}})

    def test_the_real_table_has_every_folder_of_src(self):
        layers = tidy.read_layers((tidy.ROOT / "cmake/exo_library.cmake").read_text())
        folders = {path.name for path in (tidy.ROOT / "src").iterdir() if path.is_dir()}
        self.assertLessEqual(folders, set(layers))

    def test_an_include_of_a_layer_above_is_found(self):
        self.assertEqual(found("src/core/a.cpp", '#include "model/ids.hpp"\n'), [])
        self.assertIn("may not use 'net'", found("src/core/a.cpp", '#include "net/x.hpp"\n')[0])

    def test_a_layer_that_the_table_lacks_is_found(self):
        self.assertIn("not in cmake", found("src/other/a.cpp", "")[0])

    def test_only_drivers_include_asio(self):
        include = "#include <boost/asio/any_io_executor.hpp>\n"
        self.assertIn("only drivers", found("src/core/a.cpp", include)[0])
        self.assertEqual(found("src/net/host/a.cpp", include), [])

    def test_only_the_engine_includes_llama(self):
        self.assertEqual(found("src/engine/a.cpp", "#include <llama.h>\n"), [])
        self.assertIn("'engine' and", found("src/node/a.cpp", "#include <llama.h>\n")[0])


class Bans(unittest.TestCase):
    def test_a_clock_in_pure_code_is_found(self):
        code = "auto t = std::chrono::steady_clock::now();"
        self.assertIn("told the time", found("src/core/a.cpp", code)[0])
        self.assertEqual(found("src/node/a.cpp", code), [])

    def test_threads_unordered_containers_and_random_in_pure_code_are_found(self):
        for code in ("std::mutex m;", "std::unordered_map<int, int> m;", "std::random_device d;"):
            self.assertEqual(len(found("src/model/a.cpp", code)), 1, code)

    def test_floats_are_banned_in_core_only(self):
        self.assertIn("integers", found("src/core/a.cpp", "double x;")[0])
        self.assertEqual(found("src/model/a.cpp", "double x;"), [])

    def test_words_in_comments_and_strings_are_not_code(self):
        self.assertEqual(found("src/core/a.cpp", '// a double life\nauto s = "float";\n'), [])
        self.assertEqual(found("src/core/a.cpp", '/* double */ auto s = R"(float)";\n'), [])

    def test_a_promise_of_later_work_is_found_in_any_file(self):
        for name in ("src/core/a.cpp", "docs/a.md", "Makefile"):
            self.assertTrue(any("do it now" in text for text in found(name, "TO" "DO: x\n")), name)

    def test_a_registry_host_is_found_in_any_file(self):
        self.assertTrue(any("never named" in t for t in found("docs/a.md", "from py" "pi.org\n")))

    def test_detached_coroutines_are_found(self):
        self.assertIn("owner", found("src/node/a.cpp", "co_spawn(ex, f(), asio::detached);")[0])


class Awaits(unittest.TestCase):
    def count(self, code):
        return len(list(tidy.check_awaits("a.cpp", tidy.blank(code))))

    def test_a_braced_temporary_beside_co_await_is_found(self):
        for code in (
            "co_await f(Options{.name = s});",
            "auto x = plain(Options{.name = s}) + co_await g();",
            "Options o{.name = s, .n = co_await g()};",
            "co_await f({1, 2, 3});",
            "co_await f(std::vector{1, 2, 3});",
            "auto r = co_await f(a, {}, b);",
        ):
            self.assertEqual(self.count("{ " + code + " }"), 1, code)

    def test_a_capturing_lambda_beside_co_await_is_found(self):
        for code in (
            "co_await [s](int x) -> Task { co_return; }(1);",
            "co_await co_spawn(ex, [s]() -> Task { co_return; }, use_awaitable);",
            "co_await wait_for([&] { return done; });",
        ):
            self.assertEqual(self.count("{ " + code + " }"), 1, code)

    def test_good_forms_are_left_alone(self):
        for code in (
            "Options o{.a = 1}; co_await f(std::move(o));",
            "auto work = [s]() -> Task { co_return; }; co_await co_spawn(ex, std::move(work), t);",
            "if (co_await f()) { x = Y{1}; }",
            "for (auto& x : co_await f()) { g(Y{x}); }",
            "while (true) { auto const n = co_await f(list[0](x)); }",
            "co_spawn(ex, [s]() -> Task { co_await f(); }, token);",
            "auto work = [this]() -> Task {\n    co_await f(a);\n};",
            "auto const [error, count] = co_await socket.read(buffer);",
            "switch (co_await f()) { case 1: return Y{}; }",
            "case State::a: {\n co_await f(x);\n break; }",
            "X x{1};\nco_await f(x);",
            "co_await co_spawn(ex, []() -> Task { co_return; }, token);",
        ):
            self.assertEqual(self.count("{ " + code + " }"), 0, code)


class Sizes(unittest.TestCase):
    def test_long_lines_are_found_in_code_and_not_in_pages(self):
        self.assertIn("101 columns", found("src/core/a.cpp", "x" * 101)[0])
        self.assertEqual(found("docs/a.md", "x" * 101, header="# Title\n"), [])

    def test_long_files_are_found(self):
        self.assertIn("split it", found("src/core/a.cpp", "int x;\n" * 1000)[-1])

    def test_functions_are_measured_from_signature_to_brace(self):
        code = (
            "namespace exo {\n\nclass A {\n    int b() const { return 1; }\n};\n\n"
            "template <class T>\nvoid A::c(\n    T x\n) {\n    if (x) {\n        d();\n    }\n}\n\n"
            "TEST(Election, a_rule) {\n    e();\n}\n} // namespace exo\n"
        )
        lines = {name: lines for name, _, lines in tidy.functions(code)}
        self.assertEqual(lines, {"b": 1, "A::c": 8, "TEST": 3})

    def test_a_long_function_may_shrink_and_not_grow(self):
        text = "void f() {\n" + "    g();\n" * 78 + "}\n"
        over = tidy.long_functions({"src/a.cpp": text})
        self.assertEqual(over, {("src/a.cpp", "f"): (1, 80)})
        key = ("src/a.cpp", "f")
        self.assertEqual(list(tidy.check_functions(over, {key: 80})), [])
        self.assertIn("79 at most", list(tidy.check_functions(over, {key: 79}))[0])
        self.assertIn("shorter now", list(tidy.check_functions(over, {key: 90}))[0])
        self.assertIn("70 at most", list(tidy.check_functions(over, {}))[0])


class Form(unittest.TestCase):
    def test_a_missing_licence_line_is_found(self):
        self.assertIn("SPDX", found("src/core/a.cpp", "int x;\n", header="")[0])

    def test_a_header_without_pragma_once_is_found(self):
        self.assertIn("pragma once", found("src/core/a.hpp", "int x;\n")[0])

    def test_a_page_has_one_title(self):
        self.assertEqual(found("docs/a.md", "text\n```\n# comment\n```\n", header="# T\n"), [])
        self.assertIn("one '# ' title", found("docs/a.md", "# Another\n", header="# T\n")[0])
        self.assertIn("one '# ' title", found("docs/a.md", "text\n", header="")[0])

    def test_a_folder_says_what_it_is_for(self):
        self.assertEqual(found("src/core/CMakeLists.txt", "", header="# Decisions.\n"), [])
        self.assertIn("what the folder", found("src/core/CMakeLists.txt", "", header="add(x)\n")[0])


if __name__ == "__main__":
    unittest.main()
