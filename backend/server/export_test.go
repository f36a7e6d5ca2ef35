package server

// Routes lists what a listener serves, for the golden list.
func (s *Server) Routes(ui bool) []string {
	routes := s.publicRoutes()
	if ui {
		routes = append(s.apiRoutes(), s.uiRoutes(nil)...)
	}
	var list []string
	for _, rt := range routes {
		line := rt.method + " " + rt.path
		if rt.changes {
			line += "  (changes models)"
		}
		list = append(list, line)
	}
	return list
}
