#!/usr/bin/env python3
"""Do the tests notice when gpured.h is wrong? Changes one operator, constant, returned status or
statement at a time, builds the library with that change and runs the tests until one fails.

    python3 tests/mutate.py [--count 300] [--seed 1] [--jobs 2] [--seconds 0] [--out FILE]

It needs python3, a C compiler and this folder. Mutants come from the sections of gpured.h named by
--sections, of the code that -DGPURED_NO_SIMD compiles, since the vector levels are copies of it.
A mutant is

    killed      a test failed, crashed, or did not end in time
    same        the compiler made the same code of it, so that no test could tell
    known       it survived, and tests/mutate_known.txt says why no test can or should tell
    survived    the tests lack something, or the list lacks a reason
    invalid     it does not compile (not counted)

Tests are run from the quick to the slow: the golden vectors, a part of the suite, and with
--thorough all of it, with --sanitize once more under sanitizers. A first run without these, then
--again with them, spends time where it is needed.

--out collects results, one JSON object a line; a later run with the same file goes on where it
ended. The rate is killed / (killed + survived). The last line is "N passed, N failed, N skipped",
where a mutant that is not told apart and has no reason fails only if the rate is below --least.
"""
import argparse
import concurrent.futures
import fnmatch
import glob
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADER = os.path.join(ROOT, 'gpured.h')
KNOWN = os.path.join(ROOT, 'tests', 'mutate_known.txt')
LIBRARY_FLAGS = ['-std=c99', '-O1', '-w', '-fopenmp', '-DGPURED_NO_SIMD']
TEST_FLAGS = ['-std=c11', '-O1', '-w', '-fopenmp', '-DGPURED_NO_SIMD', '-ffp-contract=off', '-pthread',
              '-DTEST_PTHREADS']
SANITIZE = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all']
# The tests that find most for their time. The rest of the suite is for survivors.
FAST = ['types', 'specials', 'layouts', 'reduce_columns', 'reduce_single', 'reduce_broadcast',
        'reduce_interleaved', 'scan_in_place', 'scan_long_line', 'scan_sizes_large', 'scan_batch',
        'scan_many_pieces', 'gemm_random', 'gemm_epilogue', 'gemm_several', 'gemm_batch',
        'gemm_sizes_long', 'gemm_threads', 'api_', 'args']

# What is put in the place of what. Blanks tell binary operators from the others: the layout of the
# repository has them on both sides.
SWAPS = {' < ': [' <= '], ' <= ': [' < '], ' > ': [' >= '], ' >= ': [' > '], ' == ': [' != '],
         ' != ': [' == '], ' + ': [' - '], ' - ': [' + '], ' * ': [' / '], ' / ': [' * '],
         ' % ': [' / '], ' && ': [' || '], ' || ': [' && '], ' & ': [' | '], ' | ': [' & '],
         ' ^ ': [' | '], ' << ': [' >> '], ' >> ': [' << '], ' += ': [' -= '], ' -= ': [' += '],
         ' *= ': [' /= '], ' /= ': [' *= '], ' ^= ': [' |= '], ' |= ': [' &= ']}
OPERATOR = re.compile(r' (?:<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|\^=|\|=|[-+*/%&|^<>]) ')
NUMBER = re.compile(r'(?<![\w.])(0x[0-9a-f]+|\d+)(u?)(?![\w.])')
STATUS = re.compile(r'return (GPURED_(?:OK|ERR_\w+));')
NOT = re.compile(r'!(?=[\w(])')
NEGATIVE = re.compile(r'(?<=[(=?:,] )-(?=[\w(])|(?<=[(\[])-(?=[\w(])')
STATEMENT = re.compile(r'^ +(?! )(?!return|break|continue|case |default|goto |typedef |const |static |struct '
                       r'|u?int\d*_t |(?:int|double|float|char|unsigned|void|size_t|uintptr_t|type) '
                       r'|gpured_\w+ \*?\w+[;,= \[]|GPURED__(?:N\(\w+\)|UV?|V|T|I) \*?\w+[;,= \[])'
                       r'(?=[A-Za-z*])[^{}]*;$')
FUNCTION = re.compile(r'^(?:GPURED__\w+|GPURED_API|static)\b.*?(?:GPURED__N\((\w+)\)|(gpured_\w+))\(')


def code_only(text):
    """The text with comments, strings and characters blanked, every other character in its place."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()), text)


def compiled_lines(compiler):
    """The lines of gpured.h that the preprocessor leaves in this configuration."""
    text = subprocess.run([compiler, *LIBRARY_FLAGS, '-E', '-I' + ROOT, ROOT + '/gpured_omp.c'],
                          check=True, capture_output=True, text=True).stdout
    lines, inside, number = set(), False, 0
    for line in text.splitlines():
        marker = re.match(r'# (\d+) "([^"]*)"', line)
        if marker:
            number, inside = int(marker.group(1)), os.path.basename(marker.group(2)) == 'gpured.h'
            continue
        if inside and line.strip():
            lines.add(number)
        number += 1
    return lines


def other_numbers(digits, suffix):
    value = int(digits, 0)
    if digits.startswith('0x'):
        return [hex(value ^ 1) + suffix]
    if value == 0:
        return ['1' + suffix]
    if value == 1:
        return ['0' + suffix, '2' + suffix]
    return ['%d%s' % (value - 1, suffix), '%d%s' % (value + 1, suffix)]


def changes(line, begins):
    """(column, old text, new text) of everything that can be changed in a line of code; `begins`: a
    statement may begin with it."""
    for m in OPERATOR.finditer(line):
        for new in SWAPS[m.group()]:
            yield m.start(), m.group(), new
    for m in NUMBER.finditer(line):
        for new in other_numbers(m.group(1), m.group(2)):
            yield m.start(), m.group(), new
    for m in STATUS.finditer(line):
        ok = m.group(1) == 'GPURED_OK'
        yield m.start(1), m.group(1), 'GPURED_ERR_ARG' if ok else 'GPURED_OK'
    for pattern in NOT, NEGATIVE:
        for m in pattern.finditer(line):
            yield m.start(), m.group(), ''
    if begins and STATEMENT.match(line):
        yield len(line) - len(line.lstrip()), line.strip(), ';'


def find_sites(compiler, sections):
    """Every mutant there is, as dictionaries."""
    with open(HEADER, encoding='utf-8') as f:
        text = f.read()
    source, masked = text.split('\n'), code_only(text).split('\n')
    compiled, sites = compiled_lines(compiler), []
    section, function, directive, begins = 0, '', False, True
    for i, line in enumerate(masked):
        title = re.match(r'/\* +(\d+)  [A-Z]', source[i])
        if title:
            section = int(title.group(1))
        starts = FUNCTION.match(line)
        if starts:
            function = starts.group(1) or starts.group(2)
        elif line.startswith('enum') or line.startswith('typedef'):
            function = ''
        is_directive = directive or line.lstrip().startswith('#')
        directive = is_directive and line.endswith('\\')
        starts_here, bare = begins, line.rstrip()
        if bare and not is_directive:
            begins = bare.endswith((';', '{', '}', ')', ':', 'else'))
        if is_directive or section not in sections or i + 1 not in compiled:
            continue
        for column, old, new in changes(line, starts_here):
            sites.append({'line': i + 1, 'column': column + 1, 'old': old, 'new': new,
                          'section': section, 'function': function, 'text': source[i].strip(),
                          'id': '%d:%d:%s' % (i + 1, column + 1, new.strip())})
    return source, sites


class Bench:
    """The compiled tests, and what mutants need to be built and run."""

    def __init__(self, args, folder):
        self.cc, self.folder = args.cc, folder
        self.thorough, self.sanitize = args.thorough, args.sanitize
        self.limits, self.stop = {}, threading.Event()
        self.env = dict(os.environ, OMP_NUM_THREADS='2', OMP_WAIT_POLICY='passive',
                        ASAN_OPTIONS='detect_leaks=1:allocator_may_return_null=1')
        self.suite, self.golden = [], []
        names = ['golden_check.c', 'runner.c', 'oracle.c', 'util.c']
        for path in sorted(glob.glob(ROOT + '/tests/test_*.c')):
            names.append(os.path.basename(path))
        for name in names:
            path = os.path.join(ROOT, 'tests', name)
            made = os.path.join(folder, name[:-2] + '.o')
            self.call([self.cc, *TEST_FLAGS, '-I' + ROOT, '-c', path, '-o', made])
            (self.golden if name == 'golden_check.c' else self.suite).append(made)

    def call(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit('mutate.py: %s: %s' % (' '.join(command), done.stderr[:2000]))

    def compile(self, header_lines, folder, flags):
        """The library with this text, as an object; None if it does not compile."""
        with open(os.path.join(folder, 'gpured.h'), 'w', encoding='utf-8') as f:
            f.write('\n'.join(header_lines))
        shutil.copy(ROOT + '/gpured_omp.c', folder)
        made = os.path.join(folder, 'library.o')
        try:
            done = subprocess.run([self.cc, *LIBRARY_FLAGS, *flags, '-c', 'gpured_omp.c', '-o', made],
                                  cwd=folder, capture_output=True, timeout=600)
        except subprocess.TimeoutExpired:
            return None
        return made if done.returncode == 0 else None

    def link(self, library, folder, flags):
        for name, objects in ('golden', self.golden), ('suite', self.suite):
            self.call([self.cc, *flags, *objects, library, '-fopenmp', '-pthread', '-lm', '-o',
                       os.path.join(folder, name)])

    def stages(self, folder):
        suite = os.path.join(folder, 'suite')
        yield 'golden', [os.path.join(folder, 'golden')]
        yield 'fast', [suite, *FAST]
        if self.thorough:
            yield 'suite', [suite]

    def fails(self, stage, command):
        """Why the tests fail, or None. Output is read as it comes, to stop at the first failure."""
        limit = self.limits.get(stage, 600)

        def bounded():
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        tests = subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, preexec_fn=bounded)
        late = threading.Event()

        def end():
            late.set()
            os.killpg(tests.pid, signal.SIGKILL)

        timer = threading.Timer(limit, end)
        timer.start()
        why, name = None, ''
        try:
            for raw in tests.stdout:
                line = raw.decode('utf-8', 'replace').strip()
                name = line.split(' ')[0] if '/' in line.split(' ')[0] else name
                if 'FAIL' in line and why is None:
                    why = name or line[:80]
                    os.killpg(tests.pid, signal.SIGKILL)
                    break
            status = tests.wait()
        finally:
            timer.cancel()
            tests.stdout.close()
        if late.is_set():
            return 'timeout in ' + stage
        if why is None and status != 0:
            why = '%s: status %d after %s' % (stage, status, name)
        return why

    def measure(self, source):
        """Builds what is not mutated, and from its times takes the limits for mutants."""
        folder = os.path.join(self.folder, 'original')
        os.mkdir(folder)
        library = self.compile(source, folder, [])
        if not library:
            sys.exit('mutate.py: gpured.h does not compile')
        self.link(library, folder, [])
        for stage, command in self.stages(folder):
            start = time.monotonic()
            why = self.fails(stage, command)
            took = time.monotonic() - start
            if why:
                sys.exit('mutate.py: the tests fail without a mutant: %s' % why)
            self.limits[stage] = 20 + 8 * took
            print('%-8s %6.1f s, limit for a mutant %.0f s' % (stage, took, self.limits[stage]))
        with open(library, 'rb') as f:
            self.original = f.read()

    def run(self, source, site):
        """The verdict on one mutant."""
        i, at = site['line'] - 1, site['column'] - 1
        changed = list(source)
        line = changed[i]
        assert line[at:at + len(site['old'])] == site['old'], site
        changed[i] = line[:at] + site['new'] + line[at + len(site['old']):]
        result = dict(site, mutant=changed[i].strip(), verdict='survived', why='')
        folder = tempfile.mkdtemp(dir=self.folder)
        try:
            library = self.compile(changed, folder, [])
            if not library:
                return dict(result, verdict='invalid')
            with open(library, 'rb') as f:
                if f.read() == self.original:
                    return dict(result, verdict='same')
            self.link(library, folder, [])
            stages = list(self.stages(folder))
            for stage, command in stages:
                why = self.fails(stage, command)
                if why:
                    return dict(result, verdict='killed', why=why)
            if self.sanitize:
                library = self.compile(changed, folder, SANITIZE)
                self.link(library, folder, SANITIZE)
                why = self.fails('sanitized', [os.path.join(folder, 'suite')])
                if why:
                    return dict(result, verdict='killed', why='sanitized, ' + why)
            return result
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def read_known():
    """[function pattern, text that the line holds, reason] from lines "function | text | reason"."""
    known = []
    if os.path.exists(KNOWN):
        with open(KNOWN, encoding='utf-8') as f:
            for line in f:
                if line.strip() and not line.startswith('#'):
                    fields = [field.strip() for field in line.split(' | ')]
                    if len(fields) != 3:
                        sys.exit('mutate.py: %s: not "function | text | reason": %s' % (KNOWN, line))
                    known.append(fields)
    return known


def reason(result, known):
    for function, part, why in known:
        if fnmatch.fnmatchcase(result['function'] or '-', function) and (
                part == '*' or part in result['text'] or part in result['mutant']):
            return why
    return None


def report(results, known, least):
    verdicts = ['killed', 'survived', 'known', 'same', 'invalid']
    table, reasons, open_ones = {}, {}, []
    for r in results:
        verdict = r['verdict']
        if verdict == 'survived':
            why = reason(r, known)
            if why:
                verdict = 'known'
                reasons[why] = reasons.get(why, 0) + 1
            else:
                open_ones.append(r)
        table.setdefault(r['section'], dict.fromkeys(verdicts, 0))[verdict] += 1
    for r in sorted(open_ones, key=lambda r: r['line']):
        print('survived gpured.h:%d in %s\n  - %s\n  + %s' % (r['line'], r['function'], r['text'],
                                                             r['mutant']))
    for why, count in sorted(reasons.items(), key=lambda item: -item[1]):
        print('known %4d  %s' % (count, why))
    print('section ' + ''.join('%10s' % v for v in verdicts))
    total = dict.fromkeys(verdicts, 0)
    for section in sorted(table):
        print('%7d ' % section + ''.join('%10d' % table[section][v] for v in verdicts))
        for v in verdicts:
            total[v] += table[section][v]
    print('    all ' + ''.join('%10d' % total[v] for v in verdicts))
    judged = total['killed'] + total['survived']
    raw = judged + total['known']
    rate = 100.0 * total['killed'] / judged if judged else 0.0
    print('killed: %.1f %% of those without a known reason, %.1f %% of all that differ' %
          (rate, 100.0 * total['killed'] / raw if raw else 0.0))
    bad = total['survived'] if rate < least else 0
    print('%d passed, %d failed, %d skipped' %
          (total['killed'], bad, total['known'] + total['same'] + total['invalid']))
    return judged > 0 and bad == 0


def parse(argv):
    p = argparse.ArgumentParser(description='Mutation testing of gpured.h.')
    p.add_argument('--cc', default=os.environ.get('CC', 'cc'))
    p.add_argument('--count', type=int, default=300, help='mutants to take; 0: all')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--jobs', type=int, default=2)
    p.add_argument('--seconds', type=float, default=0, help='start no mutant after so long')
    p.add_argument('--sections', default='5,6,7,8,9,10,12,13,14,15,16')
    p.add_argument('--lines', default='', help='FIRST-LAST: mutants of these lines alone')
    p.add_argument('--thorough', action='store_true', help='survivors meet the whole suite')
    p.add_argument('--sanitize', action='store_true',
                   help='survivors meet the whole suite, built with ASan and UBSan')
    p.add_argument('--least', type=float, default=90.0, help='the rate that is asked for, in percent')
    p.add_argument('--out', help='file of results, continued if it is there')
    p.add_argument('--again', action='store_true', help='runs the survivors of --out once more')
    p.add_argument('--report', action='store_true', help='prints the table of --out, runs nothing')
    return p.parse_args(argv)


def load(path, digest):
    """Results of earlier runs on the same gpured.h, by mutant."""
    done = {}
    if path and os.path.exists(path):
        with open(path, encoding='utf-8') as f:
            for line in f:
                result = json.loads(line)
                if result.pop('header') != digest:
                    sys.exit('mutate.py: %s is of another gpured.h' % path)
                done[result['id']] = result
    return done


def choose(sites, args, done):
    if args.lines:
        first, last = (int(x) for x in args.lines.split('-'))
        sites = [s for s in sites if first <= s['line'] <= last]
    if args.count and args.count < len(sites):
        sites = random.Random(args.seed).sample(sites, args.count)
    if args.again:
        return [s for s in sites if done.get(s['id'], {}).get('verdict') == 'survived']
    return [s for s in sites if s['id'] not in done]


def run_all(bench, source, chosen, args, done, digest):
    started, lock = time.monotonic(), threading.Lock()
    out = open(args.out, 'a', encoding='utf-8') if args.out else None

    def one(site):
        if args.seconds and time.monotonic() - started > args.seconds:
            return
        result = bench.run(source, site)
        with lock:
            done[result['id']] = result
            if out:
                out.write(json.dumps(dict(result, header=digest)) + '\n')
                out.flush()
            print('%4d %-8s gpured.h:%d %s -> %s  %s' %
                  (len(done), result['verdict'], result['line'], result['old'].strip(),
                   result['new'].strip(), result['why']), flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in [pool.submit(one, site) for site in chosen]:
            future.result()
    if out:
        out.close()


def main(argv):
    args = parse(argv)
    with open(HEADER, 'rb') as f:
        digest = hashlib.sha256(f.read()).hexdigest()[:16]
    done = load(args.out, digest)
    if not args.report:
        source, sites = find_sites(args.cc, {int(s) for s in args.sections.split(',')})
        chosen = choose(sites, args, done)
        print('%d mutants in all, %d to run' % (len(sites), len(chosen)), flush=True)
        if chosen:
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(args, folder)
                bench.measure(source)
                run_all(bench, source, chosen, args, done, digest)
    return 0 if report(done.values(), read_known(), args.least) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
