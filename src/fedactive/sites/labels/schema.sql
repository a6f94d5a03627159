-- The site's label store. `events` is the truth and only ever grows; `assignments` and `standing` are what
-- follows from it, written in the same transaction so that the page need not read the whole log.

CREATE TABLE rounds (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    al_round INTEGER NOT NULL,
    strategy TEXT NOT NULL,
    overlap INTEGER NOT NULL,     -- how many people are to answer about each image
    opened REAL NOT NULL,         -- all times are seconds since 1970, UTC
    deadline REAL,
    closed REAL,
    last_event INTEGER,           -- the end of the log when the round was closed
    planned INTEGER,              -- how many AL rounds the run has; NULL if of an earlier version
    level REAL, width REAL,       -- the window in which the run sees deep pictures, if its plan states one
    UNIQUE (run, al_round)
);

CREATE TABLE requests (
    round INTEGER NOT NULL REFERENCES rounds,
    position INTEGER NOT NULL,
    sample INTEGER NOT NULL,
    PRIMARY KEY (round, position),
    UNIQUE (round, sample)
) WITHOUT ROWID;
CREATE INDEX requests_of_sample ON requests (sample);

CREATE TABLE annotators (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    token_hash TEXT UNIQUE,       -- NULL: cannot sign in
    -- elsewhere: known from an import only; a lead may also export and import; removed: had a token once
    role TEXT NOT NULL DEFAULT 'elsewhere' CHECK (role IN ('elsewhere', 'annotator', 'lead', 'removed')),
    reviews INTEGER NOT NULL DEFAULT 0  -- 1: decides disagreements, as a lead does
);

CREATE TABLE sessions (
    key_hash TEXT PRIMARY KEY,    -- of what the cookie holds
    annotator INTEGER NOT NULL REFERENCES annotators,
    began REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_of_annotator ON sessions (annotator);

-- Imports of answers that were given elsewhere.
CREATE TABLE imports (
    id INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    annotator INTEGER NOT NULL REFERENCES annotators,  -- who imported
    undone REAL                   -- when it was taken back
);

CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    annotator INTEGER NOT NULL REFERENCES annotators,
    sample INTEGER NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('label', 'skip', 'flag', 'undo')),
    label INTEGER CHECK ((label IS NOT NULL) = (action = 'label')),
    seconds REAL,                 -- how long the person took, as far as known
    final INTEGER NOT NULL,       -- 1: decides a disagreement, whoever said what
    saw_guess INTEGER NOT NULL,   -- 1: this person had seen the model's guess of this image
    undoes INTEGER UNIQUE REFERENCES events,
    run TEXT,                     -- the round that asked for the sample; NULL if none has yet
    al_round INTEGER,
    strategy TEXT,
    key TEXT UNIQUE,              -- chosen by the sender: one sent twice counts once
    import INTEGER REFERENCES imports,  -- NULL: said here
    comment TEXT,                 -- why an image was flagged
    gold INTEGER NOT NULL DEFAULT 0  -- 1: the answer to a gold question, which decides no label
);
CREATE INDEX events_of_import ON events (import) WHERE import IS NOT NULL;
CREATE INDEX events_of_sample ON events (sample);
CREATE INDEX events_of_annotator ON events (annotator, id);
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the event log only grows'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the event log only grows'); END;

-- Who was told the model's guess of which image.
CREATE TABLE guesses_seen (
    sample INTEGER NOT NULL,
    annotator INTEGER NOT NULL REFERENCES annotators,
    PRIMARY KEY (sample, annotator)
) WITHOUT ROWID;

-- Images whose label is certain: others are asked about them to see how well they label.
CREATE TABLE gold (
    sample INTEGER PRIMARY KEY,
    label INTEGER NOT NULL,
    annotator INTEGER NOT NULL REFERENCES annotators,  -- who is certain
    time REAL NOT NULL
);

-- Who holds which image: until a time, while it is to be answered, or with an answer.
CREATE TABLE assignments (
    sample INTEGER NOT NULL,
    annotator INTEGER NOT NULL REFERENCES annotators,
    until REAL,
    action TEXT,
    label INTEGER,
    PRIMARY KEY (sample, annotator)
) WITHOUT ROWID;
CREATE INDEX assignments_of_annotator ON assignments (annotator, action);

-- Where each image stands: the common answer so far (agreement.verdict).
CREATE TABLE standing (
    sample INTEGER PRIMARY KEY,
    answers INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    label INTEGER,
    final INTEGER NOT NULL
);

-- What each image shows, as a hash, and whether it is gone: it may be back one day.
CREATE TABLE images (
    sample INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,
    gone INTEGER NOT NULL
);

-- What people did beside answering, which `events` has: signed in, saw an image, exported.
CREATE TABLE access (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    annotator INTEGER REFERENCES annotators,  -- NULL: a stranger
    address TEXT NOT NULL,
    deed TEXT NOT NULL,
    sample INTEGER,
    about INTEGER REFERENCES annotators  -- to whom it was done
);
CREATE TRIGGER access_stays BEFORE UPDATE ON access BEGIN SELECT RAISE(ABORT, 'the access log only grows'); END;
CREATE TRIGGER access_remains BEFORE DELETE ON access BEGIN SELECT RAISE(ABORT, 'the access log only grows'); END;
