# Called by tgp.py: Rscript tgp.R FOLDER SEED BURN_IN TOTAL THIN COVARIANCE. Reads x.csv, y.csv and points.csv of the folder (no
# headers), writes mean.csv and, as variances or as a matrix, covariance.csv.
given <- commandArgs(trailingOnly = TRUE)
suppressMessages(library(tgp))
read <- function(name) as.matrix(read.csv(file.path(given[1], name), header = FALSE))
write <- function(values, name) {
  write.table(format(values, digits = 17), file.path(given[1], name), sep = ",", row.names = FALSE, col.names = FALSE, quote = FALSE)
}
set.seed(as.integer(given[2]))
full <- given[6] == "1"
made <- btgp(
  X = read("x.csv"), Z = as.vector(read("y.csv")), XX = read("points.csv"), BTE = as.integer(given[3:5]), zcov = full,
  pred.n = FALSE, verb = 0
)
write(made$ZZ.mean, "mean.csv")
write(made$ZZ.s2, "covariance.csv")
