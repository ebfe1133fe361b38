"""tools/run_tests counts cases, and a program that fails apart from its cases."""
import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

path = pathlib.Path(__file__).resolve().parent.parent / "run_tests"
loader = importlib.machinery.SourceFileLoader("run_tests", str(path))
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
loader.exec_module(run_tests)

GTEST = """<?xml version="1.0"?>
<testsuites tests="4" failures="1"><testsuite name="A">
  <testcase name="good" status="run" result="completed" classname="A"/>
  <testcase name="bad" status="run" result="completed" classname="A">
    <failure message="x"/></testcase>
  <testcase name="absent" status="run" result="skipped" classname="A">
    <skipped message="no peer"/></testcase>
  <testcase name="filtered" status="notrun" result="suppressed" classname="A"/>
</testsuite></testsuites>"""


class Counting(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def report(self, text):
        file = pathlib.Path(self.folder.name) / "report.xml"
        file.write_text(text)
        return file

    def count(self, status, *texts):
        counts, reasons = run_tests.program_counts("x", status, [self.report(t) for t in texts])
        return (counts.passed, counts.failed, counts.skipped), reasons

    def test_cases_of_a_report_are_counted_with_the_reason_of_a_skip(self):
        self.assertEqual(self.count("fail", GTEST), ((1, 1, 1), ["A.absent: no peer"]))

    def test_a_program_without_a_report_is_one_case(self):
        self.assertEqual(self.count("run")[0], (1, 0, 0))
        self.assertEqual(self.count("fail")[0], (0, 1, 0))
        self.assertEqual(self.count("notrun")[0], (0, 0, 1))

    def test_a_crash_after_good_cases_is_a_failure(self):
        good = GTEST.replace('<failure message="x"/>', "")
        self.assertEqual(self.count("fail", good)[0], (2, 1, 1))

    def test_a_torn_report_is_not_believed(self):
        self.assertEqual(self.count("fail", GTEST[:200])[0], (0, 1, 0))


if __name__ == "__main__":
    unittest.main()
