"""What the records of the demonstration are made of: names, streets and places as they occur."""

FAMILIES = (
    *("Müller", "Schäfer", "Groß", "Öztürk", "Yıldız", "Weiß", "Jäger", "Böhm", "Krüger"),
    *("Hübner", "Voß", "Çelik", "Schröder", "Köhler", "Möller", "Günther", "Kühn", "Bär"),
    *("Löffler", "Strauß", "Döring", "Hänsel", "Kröger", "Lüdtke", "Nußbaum", "Pfänder"),
    *("Rößler", "Sträter", "Übelacker", "Wölfel", "Zänker", "Ährlich", "Ökten", "Şahin"),
    *("Nowak", "Szymański", "Dvořák", "Horváth", "Kowalczyk", "Petrović", "Nguyễn", "Jørgensen"),
    *("Fischer", "Wagner", "Becker", "Hoffmann", "Schulz", "Richter", "Klein", "Wolf"),
    *("O'Brien", "d'Alessandro", "von der Heide", "Meyer-Löw", "Gößling", "Faßbender"),
)
TRADES = (
    *("Maschinenbau", "Gießerei", "Bäckerei", "Druckerei", "Möbel", "Großhandel", "Spedition"),
    *("Elektro", "Gerüstbau", "Schlüsseldienst", "Fördertechnik", "Kälteanlagen", "Brauerei"),
    *("Süßwaren", "Metallveredelung", "Werkzeuge", "Büromöbel", "Gartenbau", "Getränke"),
    *("Präzisionsteile", "Dämmstoffe", "Labortechnik", "Orthopädie", "Fahrräder", "Höfe"),
    *("Sägewerk", "Käserei", "Mühlenbetrieb", "Prüftechnik", "Türen & Tore"),
)
FORMS = ("GmbH", "AG", "KG", "e. K.", "GmbH & Co. KG", "OHG", "UG (haftungsbeschränkt)", "eG", "SE")
STREETS = (
    *("Hauptstraße", "Königsallee", "Mühlweg", "Straße des 17. Juni", "Goethestraße", "Am Bächle"),
    *("Große Bleichen", "Schloßplatz", "Färbergasse", "An der Röhre", "Gewerbepark Süd"),
    *("Bürgermeister-Smidt-Straße", "Zum Güterbahnhof", "Lützowufer", "Äußere Laufer Gasse"),
    *("Industriestraße", "Rüttenscheider Straße", "Im Grund", "Weißer Weg", "Jägerallee"),
    *("Dr.-Külz-Ring", "Kaiser-Wilhelm-Platz", "Brühl", "Höhenweg", "Öschelbronner Straße"),
)
PLACES = (
    *(("10115", "Berlin"), ("50667", "Köln"), ("80331", "München"), ("40213", "Düsseldorf")),
    *(("97070", "Würzburg"), ("01067", "Dresden"), ("20095", "Hamburg"), ("28195", "Bremen")),
    *(("48143", "Münster"), ("90402", "Nürnberg"), ("23552", "Lübeck"), ("72070", "Tübingen")),
    *(
        ("37073", "Göttingen"),
        ("66111", "Saarbrücken"),
        ("52062", "Aachen"),
        ("33602", "Bielefeld"),
    ),
    *(("99084", "Erfurt"), ("06108", "Halle (Saale)"), ("02826", "Görlitz"), ("73430", "Aalen")),
    *(("84028", "Landshut"), ("67547", "Worms"), ("25980", "Sylt"), ("15230", "Frankfurt (Oder)")),
    *(("60311", "Frankfurt am Main"), ("78462", "Konstanz"), ("04109", "Leipzig")),
    *(("88131", "Lindau (Bodensee)"), ("94032", "Passau"), ("57462", "Olpe")),
)
NOTES = (
    *(None, None, None, "", " eilig ", 'Lieferung an "Tor 3"'),
    *("Größe prüfen; Rückfrage an O'Brien", "Teillieferung möglich", "\tRückgabe bis 24.12."),
    *("100 % Vorkasse", "Maß: 3,5 m²", "Zoll: Nr. 8471\\30", "bitte läuten (Hof, 2. Tür)"),
)
