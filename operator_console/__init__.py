"""One command line for operators; each system adds its commands.

A composition root beside the function app. What computes (`local_files`, `publishing`,
`job_overview`, `watermark_text`, `json_schemas`, `reference`) knows neither click nor Azure.
"""
