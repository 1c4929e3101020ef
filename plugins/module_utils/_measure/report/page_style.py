# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The style of a report's page. LIGHT and DARK stand for the colours of style.COLOURS, as CSS variables."""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;LIGHT;
--font:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif}
@media(prefers-color-scheme:dark){:root{DARK}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 var(--font);-webkit-text-size-adjust:100%}
main{max-width:1120px;margin:0 auto;padding:40px 24px 64px;overflow-wrap:break-word}
.eyebrow,figcaption p,.facts dt,.note,footer,.legend{color:var(--muted)}
.eyebrow{margin:0 0 18px;font-size:14px}
h1{margin:0;display:flex;flex-wrap:wrap;align-items:baseline;column-gap:18px;font-weight:400;line-height:1.1}
h1 b{font-size:clamp(56px,12vw,104px);font-weight:700;letter-spacing:-.035em}
h1 span{font-size:clamp(19px,3vw,26px);color:var(--muted)}
.answer{margin:16px 0 0;font-size:19px;max-width:46em}
.answer p{margin:0 0 8px}
.answer p+p{font-size:16px;max-width:54em}
.learned{max-width:52em;margin:10px 0 0}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(135px,1fr));
gap:22px 24px;margin:32px 0 0;padding:22px 0 0;border-top:1px solid var(--grid)}
.facts div{display:flex;flex-direction:column-reverse;justify-content:flex-end}
.facts dt{font-size:14px}
.facts dd{margin:0;font-size:22px;white-space:nowrap;font-weight:600;letter-spacing:-.01em;line-height:1.3}
section{margin-top:56px;min-width:0}
.halves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));
gap:0 40px;align-items:start}
h2{margin:0 0 20px;font-size:22px;font-weight:650;letter-spacing:-.01em}
h3{margin:0 0 8px;font-size:16px;font-weight:600}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));
gap:44px 40px;align-items:start}
.figures.one{max-width:620px}
.scroll+.figures{margin-top:28px}
.scroll+h3,.figures+h3,.note+h3{margin-top:36px}
.figures+.figures{margin-top:44px}
div>h3:not(:first-child){margin-top:24px}
figure{margin:0;min-width:0}
figure svg{display:block;width:100%;height:auto;overflow:visible}
figcaption p{margin:6px 0 0;font-size:14px}
details{margin-top:8px;font-size:14px;max-width:100%}
summary{cursor:pointer;color:var(--muted)}
summary:hover{color:var(--ink)}
.note{margin:6px 0 0;font-size:13px}
.scroll{overflow:auto;max-height:420px;margin-top:8px}
.scroll.whole{max-height:none}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13.5px}
th,td{padding:5px 16px 5px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
th{color:var(--muted);font-weight:500;white-space:nowrap}
td{max-width:34em;overflow-wrap:break-word}
td.w{white-space:nowrap}
th[scope=row]{text-align:left}
table.facts-of td{overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap}
tr.bad td{color:var(--bad)}
.maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:28px 40px}
.row{display:flex;gap:10px;margin:4px 0;font-size:13px}
.row>span{flex:0 0 auto;white-space:nowrap;color:var(--muted)}
.cells{display:flex;flex-wrap:wrap;gap:3px}
.cells i{width:17px;height:17px;border-radius:3px;font:10px/17px var(--font);
text-align:center;color:#fff}
.cells i:nth-child(8n){margin-right:6px}
.cells i.s,.cells i.r{color:#1a1a1a}
.cells i.c{box-shadow:inset 0 0 0 1px var(--muted)}
.cells i.u{color:var(--muted);box-shadow:inset 0 0 0 1px var(--grid)}
.legend{font-size:13px;margin:14px 0 0}
ul.notes{margin:0;padding-left:20px;max-width:52em}
ul.notes li{margin:0 0 8px}
pre{overflow-x:auto;margin:8px 0 16px;padding:14px 16px;border:1px solid var(--grid);border-radius:6px;font-size:13px;
line-height:1.45}
footer{margin-top:64px;padding-top:18px;border-top:1px solid var(--grid);font-size:13px}
@media(max-width:520px){main{padding:24px 16px 48px}section{margin-top:44px}.answer{font-size:17px}}
@media print{details{display:none}figure{break-inside:avoid}}
"""
