package jinja

// Expressions.
type (
	expr any

	constant struct{ value any }
	name     struct{ name string }
	listOf   struct {
		items []expr
		tuple bool
	}
	dictOf struct{ keys, values []expr }
	unary  struct {
		op string // - or +
		x  expr
	}
	binary struct {
		op   string // + - * / // % ** ~
		l, r expr
	}
	and     struct{ l, r expr }
	or      struct{ l, r expr }
	not     struct{ x expr }
	compare struct {
		first expr
		rest  []comparison
	}
	comparison struct {
		op string
		x  expr
	}
	condition struct{ test, then, otherwise expr } // otherwise may be nil
	attribute struct {
		x    expr
		name string
	}
	item    struct{ x, key expr }
	slicing struct{ from, to, step expr } // each may be nil
	call    struct {
		fn expr
		arguments
	}
	filter struct {
		x    expr
		name string
		arguments
	}
	test struct {
		x    expr
		name string
		arguments
	}
	arguments struct {
		args       []expr
		kwargs     []keyword
		star, dict expr // *args and **kwargs, or nil
	}
	keyword struct {
		name  string
		value expr
	}
)

// Statements.
type (
	stmt any

	text   struct{ text string }
	output struct {
		line int
		x    expr
	}
	conditional struct {
		line      int
		test      expr
		then      []stmt
		otherwise []stmt
	}
	loop struct {
		line      int
		target    expr
		iter      expr
		test      expr // may be nil
		recursive bool
		body      []stmt
		otherwise []stmt
	}
	assign struct {
		line   int
		target expr
		x      expr
	}
	assignBlock struct {
		line   int
		target expr
		filter expr // over captured, or nil
		body   []stmt
	}
	macroDef struct {
		line     int
		name     string
		params   []string
		defaults []expr // of the last ones
		body     []stmt
		extra    bool // its body uses varargs
		extraKey bool // and kwargs
	}
	callBlock struct {
		line   int
		call   *call
		caller *macroDef
	}
	filterBlock struct {
		line   int
		filter expr // over captured
		body   []stmt
	}
	with struct {
		line    int
		targets []expr
		values  []expr
		body    []stmt
	}
	breakLoop    struct{}
	continueLoop struct{}
)

// captured stands in a filter block's expression for the text of its body.
const captured = " captured"

// nsRef is the target of {% set ns.x = ... %}.
type nsRef struct{ ns, attr string }
