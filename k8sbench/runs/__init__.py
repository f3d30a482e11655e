"""What k8sbench does: submit, measure, record, report. Talks to ports only, never to a client."""
