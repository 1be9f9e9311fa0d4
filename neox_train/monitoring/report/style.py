"""The page's style sheet: one column of cards, light and dark after the reader's system, readable on a phone."""

from __future__ import annotations

_COLOURS = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b2330;--soft:#5c6776;--line:#e1e5ea;--grid:#edf0f3;
--good:#0b7a4b;--bad:#b42318;--mark:#fff4d6;--code:#f3f5f7;--yard:#9aa4b2;
--s0:#2563eb;--s1:#d9480f;--s2:#0f8a5f;--s3:#8b3fd6;--s4:#be185d;--s5:#0e7490;--s6:#8a6100;--s7:#475569}
@media (prefers-color-scheme:dark){:root{--page:#0f141b;--card:#171e28;--ink:#e6eaf0;--soft:#9aa6b6;--line:#2a3441;
--grid:#232c38;--good:#4fd1a1;--bad:#ff8f85;--mark:#3d3413;--code:#1f2733;--yard:#66727f;
--s0:#7aa7ff;--s1:#ff9d5c;--s2:#4fd1a1;--s3:#c99bff;--s4:#ff8fb8;--s5:#5cc8e0;--s6:#e3b85a;--s7:#a8b3c4}}
.c0{--c:var(--s0)}.c1{--c:var(--s1)}.c2{--c:var(--s2)}.c3{--c:var(--s3)}
.c4{--c:var(--s4)}.c5{--c:var(--s5)}.c6{--c:var(--s6)}.c7{--c:var(--s7)}.yard{--c:var(--yard)}
"""

_PAGE = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1180px;margin:0 auto;padding:0 20px 48px}
header{max-width:1180px;margin:0 auto;padding:40px 20px 8px}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:1.2rem;margin:0 0 4px}h3{font-size:1rem;margin:0 0 8px}
p{margin:0 0 10px}.lead{font-size:1.12rem;max-width:46em}.note,.meta,figcaption{color:var(--soft);font-size:.9rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:22px 24px;margin-top:20px;
overflow-wrap:break-word}
.note{max-width:62em}a{color:inherit}
nav{margin-top:14px;font-size:.9rem;display:flex;flex-wrap:wrap;gap:4px 16px}nav a{color:var(--soft)}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.86em}
.dot{display:inline-block;width:.72em;height:.72em;border-radius:50%;background:var(--c);margin-right:.5em;flex:none}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:10px 0 2px;padding:0;list-style:none;font-size:.9rem}
.good{color:var(--good)}.bad{color:var(--bad)}.badge{font-size:.78rem;border:1px solid var(--line);border-radius:99px;
padding:1px 9px;color:var(--soft);white-space:nowrap}.badge.bad{border-color:currentColor;color:var(--bad)}
.empty{color:var(--soft);font-style:italic;margin:8px 0 0}
details{border-top:1px solid var(--line);padding:10px 0}details:last-child{padding-bottom:0}
summary{cursor:pointer;font-weight:600}summary .meta{font-weight:400}
footer{color:var(--soft);font-size:.85rem;margin-top:24px}
"""

_TABLES = """
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:9px 10px;border-bottom:1px solid var(--line);vertical-align:top}
thead th{color:var(--soft);font-weight:600;font-size:.8rem;line-height:1.25;vertical-align:bottom}
tbody tr:last-child>*{border-bottom:0}th:first-child,td:first-child,.text td,.text th{text-align:left}
tbody th{font-weight:600}td small,th small{display:block;color:var(--soft);font-weight:400;font-size:.82rem}
.best{font-weight:700}.differs td{background:var(--mark)}.kv td:first-child{color:var(--soft);white-space:nowrap}
.kv td{text-align:left;padding:4px 10px;overflow-wrap:anywhere}.runs tbody th{min-width:15em}
.runs td{white-space:nowrap}
@media (max-width:720px){
.runs thead{display:none}.runs,.runs tbody,.runs tr,.runs th,.runs td{display:block}
.runs tr{padding:10px 0;border-bottom:1px solid var(--line)}.runs tr:last-child{border-bottom:0}
.runs th,.runs td{border:0;padding:3px 0}.runs td{display:flex;justify-content:space-between;gap:16px}
.runs td>span{text-align:right}.runs td::before{content:attr(data-label);color:var(--soft);text-align:left}
.card{padding:18px 16px}header{padding-top:26px}h1{font-size:1.5rem}main,header{padding-left:12px;padding-right:12px}
.kv td{display:block;padding:2px 0}.kv td:first-child{padding-top:8px;border:0}}
"""

_CHARTS = """
figure{margin:14px 0 0}svg{display:block;width:100%;height:auto}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;fill:var(--soft)}
svg .end{font-size:13px;font-weight:600;fill:var(--c)}.grid{stroke:var(--grid)}.axis{stroke:var(--line)}
.line polyline,.faint polyline,.dots polyline{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;
stroke-linecap:round}.faint polyline{stroke-width:1;opacity:.38}.dots polyline{stroke-width:1.4;stroke-dasharray:2 4}
.dots circle{fill:var(--card);stroke:var(--c);stroke-width:2}.mark line{stroke:var(--c);stroke-dasharray:5 4;opacity:.8}
.mark path{fill:var(--c)}
.narrow{display:none}@media (max-width:720px){.wide{display:none}.narrow{display:block}}
.multiples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:20px 36px}
.multiples figure h3{margin:0}
"""

_BARS = """
.bars{display:grid;grid-template-columns:minmax(6em,max-content) 1fr;gap:9px 14px;margin-top:16px;align-items:center}
.bars .name{display:flex;align-items:baseline;font-size:.95rem}.bars .name .meta{margin-left:.4em}
.track{display:flex;align-items:center;gap:10px;min-width:0}
.bar{height:22px;border-radius:4px;background:var(--c);min-width:2px;display:flex;overflow:hidden;flex:none;
width:calc((100% - 5em)*var(--w))}.wordy .bar{width:calc((100% - 18em)*var(--w))}
.bar.low{height:14px}.bar i{display:block;height:100%;background:var(--p)}.track b{white-space:nowrap;font-size:.95rem}
.track .meta{white-space:nowrap}
.p0{--p:#7c8aa5}.p1{--p:#c9a86a}.p2{--p:#8fb3a3}.p3{--p:#b58aa5}.p4{--p:#5f7f8f}.p5{--p:#a9b7cc}.p6{--p:#d98f78}
.p7{--p:#9a93c4}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;background:var(--p);margin-right:.5em}
.ruler{position:relative;height:24px;width:100%;
background:linear-gradient(var(--line),var(--line)) 0 50%/100% 2px no-repeat}
.ruler i{position:absolute;top:6px;width:12px;height:12px;margin-left:-6px;border-radius:50%;background:var(--c)}
.ruler i.hollow{background:var(--card);border:2px solid var(--c)}
.ruler u{position:absolute;top:-3px;height:30px;border-left:2px dashed var(--bad)}
@media (max-width:720px){.bars{grid-template-columns:1fr;gap:3px}
.bars .track{margin-bottom:8px;flex-wrap:wrap;gap:2px 10px}
.wordy .bar{width:calc(100%*var(--w))}}
"""

_TEXTS = """
.texts{display:grid;gap:14px;margin-top:14px}
.sample{border:1px solid var(--line);border-radius:8px;padding:14px 16px;background:var(--code);min-width:0}
.sample pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:6px 0 0;line-height:1.5}
.sample .prompt{color:var(--soft)}.sample mark{color:var(--ink);
background:color-mix(in srgb,var(--c) 15%,transparent);border-radius:3px;padding:1px 0;
-webkit-box-decoration-break:clone;box-decoration-break:clone}
.truth{border:0;padding:8px 0 0}.truth summary{font-weight:400;font-size:.88rem;color:var(--soft)}
.truth .sample{margin-top:8px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(320px,100%),1fr));gap:14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:14px;margin:14px 0}
.tiles div{border-left:3px solid var(--line);padding-left:12px}.tiles b{display:block;font-size:1.25rem;line-height:1.3}
.tiles span{color:var(--soft);font-size:.85rem}
@media print{body{background:#fff}.card{break-inside:avoid;border-color:#ccc}}
"""

STYLE = "".join((_COLOURS, _PAGE, _TABLES, _CHARTS, _BARS, _TEXTS))
