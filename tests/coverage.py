#!/usr/bin/env python3
"""Which branches of gpured.h do the tests take? Reads what llvm-cov exports on standard input.

    llvm-cov export PROGRAM -instr-profile=DATA | python3 tests/coverage.py [--least 95]

A branch is one outcome, true or false, of one condition in the source text: each operand of && and ||,
each case of a switch. gpured.h is compiled again for every accumulator type and vector level, so a
condition of its section 10 exists many times; a branch counts as taken if it is taken in one of the
copies. Conditions that the compiler folds to a constant are no branches.

tests/coverage_known.txt lists the branches that no test takes, with the reason of each. One that is
missing there, or listed without need, is a failure (but for a reason that begins with "sometimes"),
and so is a total below --least percent. The last
line is "N passed, N failed, N skipped": branches taken, failures, and branches with a reason.
"""
import argparse
import fnmatch
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KNOWN = os.path.join(ROOT, 'tests', 'coverage_known.txt')
# gpured_omp.c:gpured__fold_rows_f32_avx2 -> gpured__fold_rows
COPY = re.compile(r'_(f32|f64|u64|p32|p64)(_(scalar|sse2|avx2|avx512|neon))?$')


def read_source():
    """The lines of gpured.h, and the section that each is in."""
    with open(os.path.join(ROOT, 'gpured.h'), encoding='utf-8') as f:
        lines = f.read().split('\n')
    sections, section = [], 0
    for line in lines:
        title = re.match(r'/\* +(\d+)  [A-Z]', line)
        section = int(title.group(1)) if title else section
        sections.append(section)
    return lines, sections


def spelled(lines, place):
    """The text between two places, on one line."""
    first, at, last, end = place
    if first == last:
        return lines[first - 1][at - 1:end - 1]
    parts = [lines[first - 1][at - 1:]] + lines[first:last - 1] + [lines[last - 1][:end - 1]]
    return ' '.join(part.rstrip('\\').strip() for part in parts)


def read_branches(export):
    """{place: [times true, times false, function]} over all copies of the source."""
    branches = {}
    for function in export['data'][0]['functions']:
        name = COPY.sub('', function['name'].split(':')[-1])
        for branch in function['branches']:
            if os.path.basename(function['filenames'][branch[6]]) != 'gpured.h':
                continue
            entry = branches.setdefault(tuple(branch[:4]), [0, 0, name])
            entry[0] += branch[4]
            entry[1] += branch[5]
    return branches


def read_known():
    """[function, outcome, condition, reason] from lines "function # outcome # condition # reason"."""
    known = []
    with open(KNOWN, encoding='utf-8') as f:
        for line in f:
            if line.strip() and not line.startswith('#'):
                fields = [field.strip() for field in line.split(' # ')]
                if len(fields) != 4 or fields[1] not in ('true', 'false', '*'):
                    sys.exit('coverage.py: not "function # true|false|* # condition # reason": ' + line)
                known.append(fields)
    return known


def find_known(known, function, outcome, condition):
    """The number of the entry for a branch, or -1."""
    for i, entry in enumerate(known):
        if (fnmatch.fnmatchcase(function, entry[0]) and entry[1] in ('*', outcome) and
                entry[2] in ('*', condition)):
            return i
    return -1


def main(argv):
    p = argparse.ArgumentParser(description='Branch coverage of gpured.h.')
    p.add_argument('--least', type=float, default=95.0)
    args = p.parse_args(argv)
    lines, sections = read_source()
    branches = read_branches(json.load(sys.stdin))
    known, used, table, failures = read_known(), set(), {}, 0
    for place in sorted(branches):
        entry = branches[place]
        counts = table.setdefault(sections[place[0] - 1], [0, 0, 0])
        for outcome, times in ('true', entry[0]), ('false', entry[1]):
            counts[0] += 1
            if times > 0:
                counts[1] += 1
                continue
            condition = spelled(lines, place)
            found = find_known(known, entry[2], outcome, condition)
            if found >= 0:
                counts[2] += 1
                used.add(found)
            else:
                failures += 1
                print('FAIL gpured.h:%d: never %s: %s in %s' %
                      (place[0], outcome, condition, entry[2]))
    for i in (i for i in range(len(known)) if i not in used and known[i][3][:9] != 'sometimes'):
        failures += 1
        print('FAIL %s: listed without need: %s' % (os.path.basename(KNOWN), ' # '.join(known[i])))
    print('section  branches     taken  reasoned   percent')
    for section in sorted(table):
        total, taken, reasoned = table[section]
        print('%7d %9d %9d %9d %9.1f' % (section, total, taken, reasoned, 100.0 * taken / total))
    total, taken, reasoned = (sum(row[i] for row in table.values()) for i in range(3))
    percent = 100.0 * taken / total
    print('    all %9d %9d %9d %9.1f' % (total, taken, reasoned, percent))
    if percent < args.least:
        failures += 1
        print('FAIL %.1f %% of the branches are taken, less than %.1f %%' % (percent, args.least))
    print('%d passed, %d failed, %d skipped' % (taken, failures, reasoned))
    return failures != 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
