package wiretest

// HostileHosts are Host headers that net/http hands on untouched and that no listener of ours may answer to: names that somebody
// else can point here (DNS rebinding), other spellings of loopback, and what is no host at all.
var HostileHosts = []string{
	":11434", "", "localhost.", "127.0.0.1.", "2130706433", "0x7f.1", "127.1", "[::1%25lo]", "localhost:notaport", "evil.localhost",
	"localhost%00.evil.com", "evil.example", "evil.example:11434", "laptop.local", "x.internal", "localhost:", "localhost:99999",
	"127.0.0.1:80:80", "[127.0.0.1]", "[::1]x", "::1", "169.254.169.254", "192.168.1.2", "8.8.8.8", "[fe80::1]", "localhost.evil.com",
	"127.0.0.1.evil.com", "localhost@evil.example",
}
