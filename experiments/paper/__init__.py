"""The paper's tables and figures, one module each; ``adult`` and ``images`` have what several of them share."""
