package engine

func fixed() []string {
	return []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", "GLIBC_TUNABLES=" + hugePages}
}

// hugePages has glibc ask for huge pages where the system gives them only to who asks, as Ubuntu does, and put what a model takes in
// one heap, of which they can be made. Each token reads all weights: measured in turns, a token takes 3-4 % less, a prompt of 32
// tokens 10 % less.
const hugePages = "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=33554432"

// HOME: the GPU driver keeps its compile cache there. TZ: templates may write the date.
var passed = []string{"HOME", "TZ"}
