"""Writes what Jinja2 makes of our templates: chats.json here and ../jinja/testdata/constructs.json.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6 && venv/bin/python gen.py

The environment is that of transformers' apply_chat_template. The templates are our own, in the styles of the families.
"""
import datetime, glob, json, os
import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

here = os.path.dirname(os.path.abspath(__file__))


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run", []), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 11, 30, 9, 5, 7).strftime(f)


def render(source, data):
    try:
        return env.from_string(source).render(**data), None
    except Exception as e:
        return None, str(e) or type(e).__name__


def write(path, cases):
    with open(os.path.join(here, path), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    refused = sum(c["error"] is not None for c in cases)
    print(path, len(cases), "cases,", refused, "refused")


data = {
    "s": "Hello, World", "u": "é 漢字 🌍", "n": 7, "m": -3, "f": 2.5, "big": 9007199254740993, "huge": 123456789012345678901234567890,
    "t": True, "no": None, "e": "", "l": [3, 1, 2], "w": ["b", "a", "C"], "deep": {"a": {"b": [1, {"c": "x"}]}},
    "d": {"b": 1, "a": 2, "items": 3, "é": "ü"},
    "msgs": [{"role": "system", "content": "S"}, {"role": "user", "content": "U1"}, {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]}, {"role": "user", "content": "U2"}],
    "lines": "one\n  two\n\nthree", "html": "<b>&\"'</b>", "fl": [1e16, 1e-5, 0.1, 100.0, -0.0, 1e22, 123456.789, 1e15],
    "schema": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Zürich", "a\"b\\c\n\t\u0001/"]}, "n": {"type": "integer", "minimum": 0, "maximum": 1.5}}, "required": [], "x": {}},
}
constructs = [
    # output of values
    "{{ s }}|{{ n }}|{{ m }}|{{ f }}|{{ t }}|{{ no }}|{{ e }}|{{ nothing }}", "{{ l }} {{ w }} {{ d }} {{ deep }}", "{{ fl }}", "{{ big }} {{ huge }} {{ big + 1 }}",
    "{{ 'a' 'b' \"c\" }}", r"{{ 'a\n\t\\\'\"\x41\u00e9\U0001F30D\101\q' }}", "{{ (1, 2) }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }} {{ {'a': 1, 2: none, true: 1.0} }}",
    "{{ ['it\\'s', 'say \"x\"', 'both \\' \"', 'n\\n', '\\x00', 'é🌍', '\\u200d'] }}", "{{ 1, 2 }}", "{{ 0x1f }} {{ 1_000 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 0b11 }} {{ 0o17 }}",
    "{{ }}", "{{ 'unclosed }}", "{% if %}{% endif %}", "{{ a b }}", "{% nosuch %}", "{% if t %}", "{{ (1 }}", "{{ 1 ] }}", "{# open", "{{ '}}' }}{{ {'a': {'b': 1}}['a'] }}",
    # arithmetic
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 8 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ 1 ~ 2 + 3 }} {{ 1 + 2 ~ 3 }} {{ 'a' ~ none ~ true ~ 1.0 ~ [1] }}", "{{ +5 }} {{ -n }} {{ --n }} {{ -f }}",
    "{{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' * -1 }}", "{{ true + 1 }} {{ true * 5 }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ [1] + (2,) }}", "{{ none + 1 }}",
    "{{ nothing + 1 }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1.0 + 2 }} {{ 1 + 2.0 }} {{ 3.0 * 2 }} {{ 10 - 2.5 }}", "{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 1e300 * 1e10 }}",
    # comparison, logic
    "{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == false }} {{ [1, 2] == [1, 2] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1.0} }}",
    "{{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ 'é' > 'z' }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ nothing < 1 }}", "{{ nothing == nothing2 }} {{ nothing == none }} {{ nothing != 1 }}",
    "{{ 1 and 0 or 'x' }} {{ '' or [] or none }} {{ not '' }} {{ not not 1 }} {{ not 1 == 2 }} {{ 1 and 2 }}", "{{ 'x' if t }}|{{ 'x' if not t }}|{{ 'x' if e else 'y' }}|{{ 1 if no else 2 if e else 3 }}",
    "{{ 'World' in s }} {{ 'x' not in s }} {{ 3 in l }} {{ 'a' in d }} {{ 2 in (1, 2) }} {{ not 1 in l }} {{ 'x' in nothing }} {{ '' in s }}", "{{ 1 in s }}", "{{ 'a' in no }}", "{{ 'a' in 5 }}",
    # attributes, subscripts
    "{{ d.a }} {{ d['a'] }} {{ d.é }} {{ d.zzz }}|{{ d['zzz'] }}|{{ d.items is callable }} {{ d['items'] }} {{ d['keys'] is callable }}", "{{ deep.a.b[1].c }} {{ deep['a']['b'][0] }} {{ deep.a.b.0 }} {{ deep.a.b.1.c }}",
    "{{ l[0] }} {{ l[-1] }} {{ l[5] }}|{{ s[0] }} {{ s[-1] }} {{ s[99] }}|{{ u[0] }} {{ u[2] }} {{ u[-1] }} {{ u[3] }}", "{{ nothing.x }}", "{{ d.zzz.x }}", "{{ no.x }}|{{ no['x'] }}|{{ n.x }}", "{{ no.x.y }}",
    "{{ l[1:] }} {{ l[:2] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[::2] }} {{ l[5:] }} {{ s[:5] }} {{ s[7:] }} {{ u[2:4] }} {{ s[::-1] }} {{ s[-5:-1] }} {{ s[10:2:-3] }} {{ (1, 2, 3)[1:] }}", "{{ l[1:2, 0] }}", "{{ l[0, 1] }}|{{ l['x'] }}|{{ l[1.5] }}", "{{ l[::0] }}",
    "{{ ''.__class__ }}|{{ s.__class__.__mro__ }}", "{{ ''.__class__ }}", "{{ l.append(4) }}", "{{ d.update({}) }}", "{% include '/etc/passwd' %}", "{{ request }}{{ config }}", "{{ s() }}", "{{ nothing() }}", "{{ s.nosuch() }}",
    # whitespace
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc", "a {{- ' b ' -}} c", "  {{ s }}\n  {{ s }}\n", "a\n  {%+ if t %}\n b{% endif +%}\n\nc", "{% if t %}\n\n{% endif %}x",
    "a  {# c #}\n  {# d #}\nb {#- e -#}  f\n{# g\nh #}\n  i", "x\n\n", "x\n\n\n", "\n", "", "a\r\nb\r\n{% if t %}\r\nc{% endif %}", "\t {% set x = 1 %}\t \n{{ x }} {% set y = 2 %} {{ y }}", "{% if t %}  \n{% endif %}|",
    "  {% raw %}\n {{ x }} {% if %} \n  {% endraw %}\nz", "{%- raw -%}  {{ x }}  {%- endraw -%}  z", "{% raw %}{% endraw %}", "{{- s -}}\n {%- if t %} y {% endif -%} \n", "a\u00a0{%- if t %}b{% endif %}", "{{ s }}{% if t %}\n{% endif %}\n{{ s }}", "{%if t%}x{%endif%}{{s}}{{-s-}}",
    # for
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in nothing %}a{% else %}none{% endfor %}", "{% for x in no %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }} {% else %}z{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% for y in l %}{% if y == x %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ loop.nextitem }} {{ loop.cycle('a', 'b') }} {{ loop.changed(x > 1) }} {% endfor %}", "{% for x in [[1, [2]], [3, [4]]] recursive %}{{ loop.depth }}{{ x[0] }}{% if x[1] is defined %}({% for y in x[1] %}{{ y }}{% endfor %}){% endif %}{% endfor %}",
    "{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ n.v }}{{ loop.depth0 }}[{{ loop(n.c) }}]{% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %} {{ range(2, 8, 3) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }}", "{{ range(1000000) }}", "{% for i in range(2) %}{% for x in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}|{{ x }}", "{% set y = 0 %}{% for x in l %}{{ y }}{% set y = x %}{{ y }};{% endfor %}{{ y }}", "{% for x in l %}{{ z }}{% set z = x %}{% endfor %}", "{% for loop in l %}{% endfor %}", "{{ loop }}",
    # set, namespace, with
    "{% set a = 1 %}{% set b, c = 2, 3 %}{{ a }}{{ b }}{{ c }}", "{% set a %}  x {{ s }} {% endset %}[{{ a }}]", "{% set a | upper | trim %} x {% endset %}[{{ a }}]", "{% if t %}{% set a = 1 %}{% endif %}{{ a }}", "{% set ns = namespace(a=1, b=[]) %}{% for x in l %}{% set ns.a = ns.a + x %}{% set ns.b = ns.b + [x] %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|{{ ns['a'] }}",
    "{% set ns = namespace({'q': 1}, r=2) %}{{ ns.q }}{{ ns.r }} {{ ns }}", "{% set d.x = 1 %}", "{% set x = {} %}{% set x.y = 1 %}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% generation %}x{% set g = 1 %}{{ g }}{% endgeneration %}{{ g }}", "{% set a = a or 5 %}{{ a }}", "{% set x = 'a' if t else 'b' %}{{ x }}",
    "{% set a = 1 == 1 %}{{ a }}", "{% set a = {'k': 'v=w'} %}{{ a.k }}", "{% set a, b = l %}", "{% set ns = namespace() %}{% set ns.x, y = 1, 2 %}{{ ns.x }}{{ y }}", "{% set true = 1 %}", "{% set none, a = 1, 2 %}", "{% for a.b in l %}{% endfor %}", "{% macro true() %}{% endmacro %}", "{% set a %}{% set inner = 1 %}{{ inner }}{% endset %}{{ a }}{{ inner }}",
    # macros
    "{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c='y') }}{{ m(b=3, a=0) }}{{ m() }}", "{% macro m(a, b='p,q', c=[1, 2]) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m('(') }}", "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, z=4) }}{{ m(1) }}", "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ s }}{% endcall %}", "{% macro m(l) %}{% for x in l %}{{ caller(x) }},{% endfor %}{% endmacro %}{% call(y) m(l) %}{{ y * 2 }}{% endcall %}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "{% macro m() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}", "{% macro m() %}{% set q = 1 %}{% endmacro %}{{ m() }}{{ q }}", "{% macro m() %}  x\n{% endmacro %}[{{ m() | trim }}]", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}", "{{ m }}{% macro m() %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}", "{% macro outer() %}{% macro inner(x) %}i{{ x }}{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}{{ inner is defined }}", "{% macro m(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}", "{% macro m(x) %}{{ x }}{% endmacro %}{% set f = m %}{{ f('q') }}", "{% call s() %}{% endcall %}", "{% call s %}{% endcall %}", "{{ caller() }}",
    # filter blocks
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter trim | replace('a', 'b') %} aXa {% endfilter %}|", "{% filter nosuch %}{% endfilter %}",
    # tests
    "{{ s is string }}{{ n is number }}{{ t is number }}{{ t is integer }}{{ n is integer }}{{ f is float }}{{ t is boolean }}{{ no is none }}{{ l is sequence }}{{ d is mapping }}{{ d is sequence }}{{ l is iterable }}{{ s is iterable }}{{ n is iterable }}{{ s is mapping }}",
    "{{ nothing is defined }}{{ nothing is undefined }}{{ nothing is not defined }}{{ d.zzz is defined }}{{ s is defined }}{{ nothing is string }}{{ nothing is iterable }}{{ nothing is sequence }}{{ nothing is none }}{{ nothing is mapping }}", "{{ n is odd }}{{ n is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ n is eq 7 }}{{ n is gt(3) }}{{ n is lessthan 3 }}{{ 1 is in l }}{{ 1 is not in l }}{{ n is ne 7 }}{{ n is ge 7 }}{{ n is sameas 7 }}{{ t is true }}{{ no is false }}",
    "{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ s is callable }}{{ range is callable }}", "{{ s is nosuch }}", "{{ not s is string }}{{ s is string and n is number }}{{ s is string or x }}{{ 'y' if s is string else 'n' }}", "{{ s is not none and s }}", "{{ s | length is eq 12 }}", "{{ (n is defined) and not (n is none) }}", "{{ s is string is string }}",
    # filters
    "{{ s | upper }}{{ s | lower }}{{ 'aBC dEF' | capitalize }}{{ 'a-b (c) d\\'e' | title }}{{ '  x ' | trim }}|{{ 'xxaxx' | trim('x') }}{{ s | length }}{{ l | count }}{{ u | length }}", "{{ l | first }}{{ l | last }}{{ [] | first }}|{{ s | first }}{{ e | last }}{{ d | first }}", "{{ l | join(', ') }}{{ l | join }}{{ s | join('-') }}{{ msgs | join('|', attribute='role') }}{{ [1, none, true] | join(' ') }}",
    "{{ l | sort }}{{ w | sort }}{{ w | sort(case_sensitive=true) }}{{ l | sort(reverse=true) }}{{ msgs | sort(attribute='role') | map(attribute='content') | list }}{{ d | dictsort }}{{ {'x': 2, 'y': 1} | dictsort(by='value') }}", "{{ [1, 'a'] | sort }}", "{{ l | reverse | list }}{{ s | reverse }}{{ l | sum }}{{ [0.5, 1] | sum }}{{ msgs | map(attribute='role') | unique | list }}{{ l | max }}{{ l | min }}{{ [] | max }}{{ w | max }}",
    "{{ nothing | default('x') }}{{ e | default('x') }}{{ e | default('x', true) }}{{ no | default('x') }}{{ no | d('x', boolean=true) }}{{ nothing | default }}", "{{ '42' | int }}{{ 'x' | int }}{{ 'x' | int(9) }}{{ '3.7' | int }}{{ 3.9 | int }}{{ -3.9 | int }}{{ '1f' | int(base=16) }}{{ ' 5 ' | int }}{{ '2.5' | float }}{{ 'x' | float }}{{ 3 | float }}{{ none | int }}{{ true | int }}", "{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.675 | round(2) }}{{ 7 | round }}{{ 2.1 | round(0, 'ceil') }}{{ 2.9 | round(method='floor') }}{{ -1 | abs }}{{ 1.5 | abs }}",
    "{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent(1, first=true, blank=true) }}|{{ lines | indent('> ') }}|{{ 'a\\n' | indent }}|{{ '' | indent }}|{{ 'a\\n\\n' | indent(2) }}", "{{ s | replace('l', 'L') }}{{ s | replace('l', 'L', 1) }}{{ 'aaa' | replace('', '-') }}", "{{ html | e }}{{ html | escape }}{{ html | safe }}{{ n | string }}{{ l | string }}", "{{ d | items | list }}{{ nothing | items | list }}{{ d | list }}{{ s | list }}", "{{ s | wordcount }}{{ 'foo bar baz qux' | truncate(9) }}{{ 'foo bar baz qux' | truncate(9, true) }}{{ 'foo bar' | truncate(9) }}{{ 'x' | center(5) }}|{{ 'ab' | center(5) }}|{{ 'x' | center(4) }}|{{ 'abc' | center(6) }}|",
    "{{ l | batch(2) | list }}{{ l | batch(2, 0) | list }}{{ [1, 2, 3, 4, 5] | slice(2) | list }}{{ [1, 2, 3, 4, 5] | slice(3, 'x') | list }}", "{{ '%s is %d and %.2f %05d %-4s| %x %% %r' | format('a', 3, 1.5, 42, 'b', 255, 'q') }}{{ '%(a)s' | format(a=1) }}{{ '%s' % 'x' }}{{ '%s %s' % (1, 2) }}", "{{ '%s' | format }}", "{{ '%d' % 'x' }}", "{{ s | nosuch }}", "{{ s | upper(1) }}", "{{ n | length }}", "{{ no | length }}", "{{ nothing | length }}{{ nothing | upper }}{{ nothing | list }}{{ nothing | trim }}",
    "{{ msgs | map(attribute='role') | list }}{{ w | map('upper') | list }}{{ w | map('replace', 'a', 'z') | join }}{{ msgs | map(attribute='tool_calls.0.id', default='-') | list }}{{ msgs | map(attribute='tool_calls') | list }}", "{{ l | select('odd') | list }}{{ l | reject('odd') | list }}{{ l | select('gt', 1) | list }}{{ [0, 1, '', 'a'] | select | list }}{{ [0, 1] | reject | list }}", "{{ msgs | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}{{ msgs | selectattr('tool_calls') | list | length }}{{ msgs | selectattr('tool_calls', 'defined') | list | length }}{{ msgs | rejectattr('role', 'in', ['user', 'system']) | list | length }}{{ msgs | selectattr('role', '==', 'system') | first }}",
    "{{ 'yes' if msgs | selectattr('role', 'eq', 'nobody') else 'no' }}{{ 'yes' if msgs | selectattr('role', 'eq', 'nobody') | list else 'no' }}", "{{ msgs | selectattr('role') | length }}", "{{ msgs | map(attribute='role') | tojson }}", "{% for role, group in msgs | groupby('role') %}{{ role }}:{{ group | map(attribute='content') | list }} {% endfor %}", "{{ l | map('nosuch') | list }}", "{{ msgs | selectattr('role', 'nosuch') | list }}", "{{ -1 | abs }}{{ (-1) | abs }}{{ 2 * 3 | abs }}{{ 'a' ~ 'b' | upper }}{{ not e | length }}", "{{ d | attr('a') }}|{{ s | attr('nosuch') }}", "{{ l | random_nosuch }}",
    # tojson
    "{{ schema | tojson }}", "{{ schema | tojson(indent=2) }}", "{{ schema | tojson(indent=4) }}", "{{ schema | tojson(separators=(',', ':')) }}", "{{ schema | tojson(sort_keys=true) }}", "{{ schema | tojson(ensure_ascii=true) }}", "{{ u | tojson(ensure_ascii=true) }}{{ u | tojson }}", "{{ [1, 1.0, 1e20, 0.1, true, none, 'x', [], {}] | tojson }}", "{{ fl | tojson }}", "{{ big | tojson }}{{ huge | tojson }}", "{{ nothing | tojson }}", "{{ {'f': range} | tojson }}", "{{ (1, (2,)) | tojson }}{{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }}", "{{ '</script>\\u2028\\x7f\\x1f' | tojson }}", "{{ [] | tojson(indent=2) }}{{ [[]] | tojson(indent=1) }}{{ {'a': {}} | tojson(indent=0) }}", "{{ namespace(a=1) | tojson }}", "{{ html | tojson }}", "{{ schema | tojson(indent='\\t') }}", "{{ schema | tojson(2) }}",
    # string methods
    "{{ '  x '.strip() }}|{{ '  x '.lstrip() }}|{{ '  x '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ '\\n\\t x\\u3000'.strip() }}|{{ '--a'.lstrip('-') }}|{{ 'abc'.rstrip('cb') }}", "{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a b c'.split(none, 1) }}{{ ' a  b  c '.rsplit(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a b'.split(' ')[-1] }}", "{{ 'a'.split('') }}", "{{ lines.splitlines() }}{{ 'a\\r\\nb\\n'.splitlines() }}{{ 'a\\nb\\n'.splitlines(true) }}",
    "{{ s.startswith('Hello') }}{{ s.startswith(('x', 'He')) }}{{ s.endswith('d') }}{{ s.startswith('') }}", "{{ s.replace('o', '0') }}{{ s.replace('o', '0', 1) }}{{ 'ab'.replace('', '-') }}", "{{ s.upper() }}{{ s.lower() }}{{ 'hello wORLD it\\'s'.title() }}{{ 'aBC'.capitalize() }}{{ 'aBc'.swapcase() }}{{ 'éÀ'.upper() }}", "{{ s.find('o') }}{{ s.find('z') }}{{ s.rfind('o') }}{{ s.index('W') }}{{ s.count('l') }}{{ u.find('漢') }}", "{{ s.index('z') }}", "{{ ', '.join(w) }}{{ ''.join(['a']) }}", "{{ ','.join([1]) }}",
    "{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'ab'.isalpha() }}{{ ' '.isspace() }}{{ ''.isdigit() }}{{ 'AB'.isupper() }}{{ 'ab1'.islower() }}{{ '12'.isnumeric() }}", "{{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x.py'.removesuffix('.py') }}{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'abc'.partition('x') }}", "{{ '{} and {}'.format(1, 'b') }}{{ '{0}{1}{0}'.format('a', 'b') }}{{ '{x}'.format(x=2) }}{{ '{{}}'.format() }}", "{{ '{}'.format() }}", "{{ '7'.zfill(3) }}{{ '-7'.zfill(4) }}{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '*') }}{{ 'ab'.center(5, '*') }}{{ 'ab'.center(7, '*') }}{{ 'a'.center(4, '*') }}",
    "{{ s.split(', ')[1].lower()[0] }}", "{{ ('a' ~ 'b').upper() }}{{ 'x'.upper().lower() }}", "{{ s.strip(1) }}", "{{ s.split(1) }}", "{{ 'a'.join('xyz') }}",
    # dict and list methods
    "{{ d.get('a') }}{{ d.get('zzz') }}{{ d.get('zzz', 'def') }}{{ d.keys() | list }}{{ d.values() | list }}{{ d.items() | list }}{{ l.index(2) }}{{ l.count(3) }}{{ d.copy() == d }}", "{{ l.index(99) }}", "{% for k, v in d | dictsort %}{{ k }}{{ v }}{% endfor %}", "{{ d | length }}{{ dict(a=1, b=2) }}{{ dict([['x', 1]]) }}{{ dict({'y': 1}, z=2) }}", "{{ {'a': 1}.a }}{{ [1, 2][0] }}{{ 'abc'[1] }}{{ {'a': 1}['a'] }}", "{{ {[]: 1} }}", "{{ dict([], []) }}",
    # cycler, joiner, time, raise
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner(';') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %d %B %b %A %a %j %y %p %I %%') }}", "{{ strftime_now('%-d %e') }}", "{{ raise_exception('own words é') }}", "{% if n > 5 %}{{ raise_exception('n is ' ~ n) }}{% endif %}", "{% if false %}{{ raise_exception('no') }}{% endif %}ok", "{{ 'a' if n else raise_exception('x') }}",
    "{{ {'a': 1, 'a': 2} }}{{ {1: 'a', true: 'b'} }}", "{{ ((((1)))) }}{{ [[[[1]]]] }}", "{{ s|upper|lower|title }}", "{{ s\n|\nupper }}", "{{ [1,2,] }}{{ {'a':1,} }}{{ (1,2,) }}", "{% set x = [1,\n 2] %}{{ x }}", "{{ not }}", "{{ if }}", "{{ 1 if }}", "{{ l|sort(attribute=none) }}",
]


def golden_constructs():
    for source in constructs:
        text, error = render(source, json.loads(json.dumps(data)))
        yield {"source": source, "expected": text, "error": error}


# Conversations in the product's own shape (backend/llm.Message), and what templates are given for them.
weather = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city, e.g. \"Zürich\" <b>", "parameters": {"type": "object", "properties": {"days": {"type": "integer", "description": "1-5"}, "city": {"type": "string", "enum": ["Oslo", "Zürich"]}}, "required": ["city"]}}}
clock = {"type": "function", "function": {"name": "time", "description": "Now", "parameters": {"type": "object", "properties": {}}}}
calls = [{"id": "call00001", "name": "get_weather", "arguments": {"days": 2, "city": "Oslo"}}, {"id": "call00002", "name": "time", "arguments": {}}]
conversations = {
    "hello": {"messages": [{"role": "user", "content": "Hello, who are you?"}]},
    "turns": {"messages": [{"role": "system", "content": " Be brief. \n"}, {"role": "user", "content": "Hi é 漢字 🌍 <b>&\"'"}, {"role": "assistant", "content": "Hello!\n\n  x"}, {"role": "user", "content": "Again  "}]},
    "closed": {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}], "add_generation_prompt": False},
    "tools": {"messages": [{"role": "user", "content": "Weather in Oslo?"}], "tools": [weather, clock]},
    "calls": {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": calls}, {"role": "tool", "content": "{\"t\": -3}", "tool_call_id": "call00001", "tool_name": "get_weather"}, {"role": "tool", "content": "09:05", "tool_call_id": "call00002", "tool_name": "time"}, {"role": "user", "content": "Thanks"}], "tools": [weather]},
    "one call": {"messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": calls[:1]}, {"role": "tool", "content": "{\"t\": -3}", "tool_call_id": "call00001", "tool_name": "get_weather"}], "tools": [weather]},
    "think": {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4", "thinking": "easy"}, {"role": "user", "content": "+1?"}], "thinking": True},
    "nothink": {"messages": [{"role": "user", "content": "2+2?"}], "thinking": False},
    "oldthink": {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n4"}, {"role": "user", "content": "+1?"}]},
    "wrong order": {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
    "empty": {"messages": []},
}
tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def for_template(conversation):
    messages = []
    for m in conversation["messages"]:
        out = {"role": m["role"], "content": m["content"]}
        if "thinking" in m:
            out["reasoning_content"] = out["thinking"] = m["thinking"]
        if "tool_call_id" in m:
            out["tool_call_id"] = m["tool_call_id"]
        if "tool_name" in m:
            out["name"] = m["tool_name"]
        if "tool_calls" in m:
            out["tool_calls"] = [{"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}} for c in m["tool_calls"]]
        messages.append(out)
    given = dict(tokens, messages=messages, tools=conversation.get("tools"), documents=None, add_generation_prompt=conversation.get("add_generation_prompt", True))
    if "thinking" in conversation:
        given["enable_thinking"] = given["thinking"] = conversation["thinking"]
    return given


def golden_chats():
    for path in sorted(glob.glob(os.path.join(here, "templates", "*.jinja"))):
        source = open(path).read()
        for name, conversation in conversations.items():
            text, error = render(source, for_template(conversation))
            yield {"template": os.path.basename(path), "conversation": name, "expected": text, "error": error}


write("../jinja/testdata/constructs.json", list(golden_constructs()))
with open(os.path.join(here, "../jinja/testdata/data.json"), "w") as f:
    json.dump(data, f, ensure_ascii=False, indent=1)
with open(os.path.join(here, "conversations.json"), "w") as f:
    json.dump({"tokens": tokens, "conversations": conversations}, f, ensure_ascii=False, indent=1)
write("chats.json", list(golden_chats()))
