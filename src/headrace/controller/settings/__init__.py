"""How often and how much the parts of a controller work: settings that operators change."""
